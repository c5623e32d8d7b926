"""The census sees this process, its children and its shared-memory mappings."""

import mmap
import os
import subprocess
import sys
import uuid

import pytest

from omni_verify.audit.process import census


def test_this_process_is_counted():
    found = census()
    assert found.process.pid == os.getpid()
    assert found.process.rss > 1_000_000
    assert found.process.threads >= 1


def test_an_open_descriptor_and_a_mapping_are_seen():
    before = census().process
    path = f"/dev/shm/ov-census-{uuid.uuid4().hex}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, 4096)
        with mmap.mmap(descriptor, 4096):
            during = census().process
    finally:
        os.close(descriptor)
        os.unlink(path)
    assert during.fds > before.fds
    assert during.shm_mappings == before.shm_mappings + 1
    assert census().process.shm_mappings == before.shm_mappings


def test_children_are_listed_and_the_tracker_is_recognised():
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", program, "multiprocessing.resource_tracker"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        found = census()
        child.stdin.close()
    assert child.pid in {sample.pid for sample in found.children}
    assert found.tracker is not None
    assert found.tracker.pid == child.pid
    assert found.rss > found.process.rss


def test_a_process_that_does_not_exist_is_an_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    with pytest.raises(ProcessLookupError, match=str(child.pid)):
        census(child.pid)
