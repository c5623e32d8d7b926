"""Processes that are on their way out, and such as may not be read."""

import builtins
import os
import subprocess
import sys

import pytest

from omni_verify.audit import neighbours

IDLE = [sys.executable, "-c", "print(flush=True); input()"]


@pytest.fixture
def process():
    with subprocess.Popen(IDLE, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(("number", "is_met"), [(22, False), (2, False), (3, False), (13, True)])
def test_a_process_that_exits_while_it_is_looked_at_is_nobody(process, monkeypatch, number, is_met):
    """Its mappings were read, its mounts are gone: it counted as one that reaches every file system."""

    def fail(path, *args, **kwargs):
        if path == f"/proc/{process.pid}/mountinfo":
            raise OSError(number, os.strerror(number))
        return builtins.open(path, *args, **kwargs)

    monkeypatch.setattr(neighbours, "open", fail, raising=False)
    found = neighbours.look_around(os.stat("/dev/shm").st_dev)
    assert (process.pid in found) is is_met
    if is_met:
        assert found[process.pid].devices is None
