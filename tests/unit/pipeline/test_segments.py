"""Segments: filled completely or not at all, and removed by the read that emptied them."""

import os
import uuid

import pytest

from omni_verify.contracts.keys import segment_path
from omni_verify.pipeline import segments
from omni_verify.pipeline.segments import shm_read_bytes, shm_write_bytes, unlink_segment


@pytest.fixture
def name():
    name = f"ut{uuid.uuid4().hex[:12]}_0_0"
    yield name
    assert not unlink_segment(name)


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 3_000_000])
def test_read_returns_what_was_written_and_unlinks(name, size):
    data = os.urandom(size)
    assert shm_write_bytes(data, name) == {"name": name, "size": size}
    assert os.stat(segment_path(name)).st_size == size
    assert os.stat(segment_path(name)).st_mode & 0o777 == 0o600
    assert bytes(shm_read_bytes({"name": name, "size": 1})) == data
    with pytest.raises(FileNotFoundError):
        shm_read_bytes({"name": name})


def test_existing_segment_is_replaced_by_a_new_object(name):
    shm_write_bytes(b"first", name)
    opened = os.open(segment_path(name), os.O_RDONLY)
    shm_write_bytes(b"2nd", name)
    assert os.read(opened, 100) == b"first"  # who has it open keeps a whole value
    os.close(opened)
    assert shm_read_bytes({"name": name}) == b"2nd"


def test_short_writes_are_continued(name, monkeypatch):
    real = os.write
    monkeypatch.setattr(segments.os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    shm_write_bytes(b"0123456789" * 3, name)
    assert shm_read_bytes({"name": name}) == b"0123456789" * 3


def test_no_space_after_a_partial_write_leaves_nothing(name, monkeypatch):
    real, calls = os.write, []

    def fill_up(fd, data):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:7])

    monkeypatch.setattr(segments.os, "write", fill_up)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space"):
        shm_write_bytes(b"0123456789", name)
    assert not os.path.exists(segment_path(name))
    assert len(os.listdir("/proc/self/fd")) == before


def test_empty_segment_is_left_for_its_writer(name):
    open(segment_path(name), "xb").close()
    assert shm_read_bytes({"name": name}) == b""
    assert unlink_segment(name)


def test_no_resource_tracker_is_started_and_no_descriptor_stays(name):
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(20):
        shm_write_bytes(b"x" * 100_000, name)
        shm_read_bytes({"name": name})
    assert sorted(os.listdir("/proc/self/fd")) == before
