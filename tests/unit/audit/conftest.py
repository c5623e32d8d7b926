"""A private shared memory with real processes in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_verify.audit import namespace

ROOT = Path(__file__).parents[3]


class Remote:
    """Calls the methods of `room_server.Room`."""

    def __init__(self, process):
        self._process = process

    def __getattr__(self, name):
        def call(*args, **options):
            self._process.stdin.write(json.dumps({"do": name, "args": args, "options": options}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, f"{name} failed in the room, see its traceback"
            return json.loads(line)

        return call


@pytest.fixture(scope="module")
def _room():
    if reason := namespace.available():
        pytest.skip(f"no private /dev/shm here: {reason}")
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("room_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        yield Remote(process)
        process.stdin.close()
        process.wait(60)


@pytest.fixture
def room(_room):
    """A room with an empty /dev/shm of its own, so that other programs of this machine play no part."""
    yield _room
    _room.reset()
