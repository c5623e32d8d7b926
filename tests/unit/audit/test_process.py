"""Processes are seen with their descendants, descriptors and shared-memory mappings."""

import mmap
import os
import subprocess
import sys
import uuid

import psutil
import pytest

from omni_verify.audit.process import count_fds, count_mappings, descendants, is_tracker


def test_an_open_descriptor_and_a_mapping_are_seen():
    process = psutil.Process()
    fds, mappings = count_fds(process), count_mappings(process.pid)
    path = f"/dev/shm/ov-process-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, 4096)
        with mmap.mmap(descriptor, 4096):
            during = count_fds(process), count_mappings(process.pid)
    finally:
        os.close(descriptor)
        os.unlink(path)
    assert during[0] > fds
    assert during[1] == mappings + 1
    assert count_mappings(process.pid) == mappings


def test_children_are_listed_and_the_tracker_is_recognised():
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", program, "multiprocessing.resource_tracker"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        found = {process.pid: is_tracker(process) for process in descendants(os.getpid())}
        child.stdin.close()
    assert found[child.pid]
    assert list(found) == sorted(found)
    assert not is_tracker(psutil.Process())


def test_a_process_that_does_not_exist_is_an_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        descendants(child.pid)
    assert count_mappings(child.pid) == -1
