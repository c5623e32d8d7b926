"""Spares: memory of consumed large segments is written to again, and only when nobody else can see it."""

import mmap
import os
import subprocess
import sys
import uuid

import pytest

from omni_verify.contracts.keys import SPARE_PATTERN, segment_path
from omni_verify.pipeline import segments, spares
from omni_verify.pipeline.dead_spares import sweep_dead_spares
from omni_verify.pipeline.segments import shm_read_bytes, shm_write_bytes, unlink_segment
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
from omni_verify.pipeline.spares import SPARE_FROM_BYTES, SparePool
from omni_verify.pipeline.wakeup import WakeSender, scope_directory

LARGE = 4 * SPARE_FROM_BYTES
WAIT_S = 30


class Run:
    """A wake directory of its own, and names of segments that carry its scope."""

    def __init__(self):
        self.scope = f"ut{uuid.uuid4().hex[:12]}"
        self.directory = scope_directory({"wakeup_scope": self.scope})
        self.connectors = []

    def connector(self, stage_id=0):
        self.connectors.append(SharedMemoryConnector({"stage_id": stage_id, "wakeup_scope": self.scope}))
        return self.connectors[-1]

    def name(self, chunk_id=0):
        return f"{self.scope}_0_{chunk_id}"

    def spares(self):
        names = os.listdir(self.directory) if os.path.exists(self.directory) else []
        return sorted(name for name in names if SPARE_PATTERN.fullmatch(name))

    def files(self):
        return sorted(name for name in os.listdir("/dev/shm") if self.scope in name)


@pytest.fixture
def run():
    run = Run()
    yield run
    for connector in run.connectors:
        connector.close()
    left = [*run.files(), *run.spares()]
    for name in run.files():
        unlink_segment(name)
    assert left == []
    assert not os.path.exists(run.directory)


@pytest.fixture
def pool(run):
    os.mkdir(run.directory, 0o700)
    pool = SparePool(run.directory)
    yield pool
    pool.close()
    os.rmdir(run.directory)


def fill(pool, name, byte, size=LARGE):
    shm_write_bytes(bytes([byte]) * size, name, pool)
    return os.stat(segment_path(name)).st_ino


def read(name):
    return bytes(shm_read_bytes({"name": name}))


@pytest.mark.parametrize("sizes", [(LARGE, LARGE), (LARGE + 900, LARGE), (LARGE, LARGE + 70_000)])
def test_memory_of_a_consumed_segment_is_used_again(run, pool, sizes):
    first = fill(pool, run.name(0), 1, sizes[0])
    assert read(run.name(0)) == b"\1" * sizes[0]
    assert fill(pool, run.name(1), 2, sizes[1]) == first
    assert read(run.name(1)) == b"\2" * sizes[1]
    assert len(run.spares()) == 1


def test_a_small_segment_has_no_spare(run, pool):
    fill(pool, run.name(), 1, SPARE_FROM_BYTES - 1)
    assert run.spares() == []
    assert len(read(run.name())) == SPARE_FROM_BYTES - 1


def test_an_unread_segment_is_never_written_to(run, pool):
    inodes = {fill(pool, run.name(chunk_id), chunk_id) for chunk_id in range(5)}
    assert len(inodes) == 5
    for chunk_id in range(5):
        assert read(run.name(chunk_id)) == bytes([chunk_id]) * LARGE


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_segment_that_somebody_still_reads_is_never_written_to(run, pool, how):
    """It was unlinked under a reader without the lock, as a foreign one may be (W3)."""
    fill(pool, run.name(0), 1)
    with open(segment_path(run.name(0)), "rb") as file:
        view = mmap.mmap(file.fileno(), LARGE, prot=mmap.PROT_READ) if how == "mapped" else None
        if view is not None:
            file.close()
        unlink_segment(run.name(0))
        fill(pool, run.name(1), 2)
        assert (view or file).read(LARGE) == b"\1" * LARGE
        if view is not None:
            view.close()
    assert read(run.name(1)) == b"\2" * LARGE


def test_an_unread_segment_of_the_same_name_is_replaced_by_a_new_object(run, pool):
    assert fill(pool, run.name(), 1) != fill(pool, run.name(), 2)
    assert read(run.name()) == b"\2" * LARGE


def test_spares_take_a_bounded_part_of_the_file_system(run, pool, monkeypatch):
    monkeypatch.setattr(spares, "MOST_SPARE_BYTES", 3 * LARGE)
    for chunk_id in range(8):
        fill(pool, run.name(chunk_id), chunk_id)
    assert len(run.spares()) == 3
    for chunk_id in range(8):
        assert read(run.name(chunk_id)) == bytes([chunk_id]) * LARGE


def test_a_spare_of_another_order_of_size_is_replaced(run, pool, monkeypatch):
    monkeypatch.setattr(spares, "MOST_SPARE_BYTES", 8 * LARGE)
    fill(pool, run.name(0), 1, 7 * LARGE)
    read(run.name(0))
    fill(pool, run.name(1), 2)
    assert len(run.spares()) == 1
    assert len(read(run.name(1))) == LARGE


def test_an_idle_sender_keeps_none(run):
    sender, receiver = run.connector(0), run.connector(1)
    for chunk_id in range(3):
        assert sender.put("0", "1", run.name(chunk_id), b"x" * LARGE)[0]
        assert receiver.get("0", "1", run.name(chunk_id)) is not None
        sender.reap_consumed()
        assert len(run.spares()) == 1
    sender.reap_consumed()
    assert run.spares() == []
    assert sender.put("0", "1", run.name(9), b"x" * LARGE)[0]
    sender.reap_consumed()
    sender.reap_consumed()
    assert run.spares() == []
    assert receiver.get("0", "1", run.name(9)) == (b"x" * LARGE, LARGE + 5)


def test_close_removes_spares_with_the_unread_segments(run):
    sender = run.connector(0)
    assert sender.put("0", "1", run.name(), b"x" * LARGE)[0]
    assert len(run.spares()) == 1
    sender.close()
    assert [*run.files(), *run.spares()] == []


def test_a_large_put_that_ends_after_close_undoes_itself(run, monkeypatch):
    sender = run.connector(0)
    real = os.link

    def closed_meanwhile(source, target):
        real(source, target)
        sender.close()

    monkeypatch.setattr(segments.os, "link", closed_meanwhile)
    assert sender.put("0", "1", run.name(), b"x" * LARGE) == (False, 0, None)
    assert [*run.files(), *run.spares()] == []


def test_no_space_fails_the_put_and_frees_every_spare(run, pool, monkeypatch):
    fill(pool, run.name(0), 1)
    fill(pool, run.name(1), 1)
    read(run.name(0))

    def full(fd, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(segments.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            fill(pool, run.name(2), 2)
    assert run.spares() == []
    assert run.files() == [run.name(1)]
    assert read(run.name(1)) == b"\1" * LARGE
    fill(pool, run.name(2), 3)
    assert read(run.name(2)) == b"\3" * LARGE


def test_a_spare_that_somebody_removed_costs_no_chunk(run, pool):
    fill(pool, run.name(0), 1)
    read(run.name(0))
    os.unlink(f"{run.directory}/{run.spares()[0]}")
    fill(pool, run.name(1), 2)
    assert read(run.name(1)) == b"\2" * LARGE


def test_a_spare_that_is_removed_while_it_is_filled_costs_no_chunk(run, pool, monkeypatch):
    real = os.link

    def late(source, target):
        os.unlink(source)
        real(source, target)

    monkeypatch.setattr(segments.os, "link", late)
    fill(pool, run.name(), 7)
    assert read(run.name()) == b"\7" * LARGE
    assert run.spares() == []


def test_a_system_that_permits_no_link_costs_no_chunk(run, pool, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(segments.os, "link", refuse)
    fill(pool, run.name(), 7)
    assert read(run.name()) == b"\7" * LARGE
    assert run.spares() == []


def test_no_descriptor_stays_open(run, pool):
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        fill(pool, run.name(), 1)
        read(run.name())
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_without_leases_no_memory_is_used_again_and_none_is_kept(run, pool, monkeypatch):
    def refuse(fd, operation, argument=0):
        raise OSError(22, "Invalid argument")

    fill(pool, run.name(0), 1)
    read(run.name(0))
    monkeypatch.setattr(spares.fcntl, "fcntl", refuse)
    for chunk_id in range(1, 4):
        fill(pool, run.name(chunk_id), chunk_id)
        assert read(run.name(chunk_id)) == bytes([chunk_id]) * LARGE
    assert len(run.spares()) == 1


BROKEN_LEASE = """
import fcntl, os, signal, sys
from omni_verify.pipeline import spares
spare = spares.Spare(sys.argv[1], 0)
assert spare.open(os.O_CREAT)
real = fcntl.fcntl
def opened_meanwhile(fd, operation, argument):
    real(fd, operation, argument)
    if argument == fcntl.F_WRLCK:
        try:
            os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
        except BlockingIOError:
            print("broken", flush=True)
spares.fcntl.fcntl = opened_meanwhile
spare.is_alone()
print("alive")
"""


def test_who_opens_a_spare_while_it_is_looked_at_does_not_end_the_process(tmp_path, run, pool):
    path = f"{run.directory}/looked-at"
    command = [sys.executable, "-c", BROKEN_LEASE, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    os.unlink(path)
    assert (done.returncode, done.stdout) == (0, "broken\nalive\n"), done


SENDER = """
import sys
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
connector = SharedMemoryConnector({"stage_id": 0, "wakeup_scope": sys.argv[1]})
for chunk_id in range(3):
    assert connector.put("0", "1", f"{sys.argv[1]}_0_{chunk_id}", b"x" * 300_000)[0]
print("ready", flush=True)
sys.stdin.read()
"""


def test_spares_of_a_killed_sender_go_with_its_journal(run):
    receiver = run.connector(1)
    command = [sys.executable, "-c", SENDER, run.scope]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        sweep_dead_spares(run.directory)
        assert len(run.spares()) == 3, "a live sender's spares were swept"
        assert receiver.get("0", "1", run.name(0)) is not None
        process.kill()
        process.wait(WAIT_S)
    assert receiver.get("0", "1", run.name(1)) == (b"x" * 300_000, 300_005), "it outlives its sender"
    receiver.close()
    assert [*run.files(), *run.spares()] == []


def test_spares_of_a_killed_sender_go_when_the_next_one_begins(run):
    receiver = run.connector(1)
    command = [sys.executable, "-c", SENDER, run.scope]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert run.connector(0).put("0", "1", run.name(7), b"x")[0]
        assert len(run.spares()) == 3, "a live sender's spares were swept"
        process.kill()
        process.wait(WAIT_S)
    assert run.connector(0).put("0", "1", run.name(8), b"x")[0]
    assert run.spares() == []
    for chunk_id in range(3):
        assert receiver.get("0", "1", run.name(chunk_id)) == (b"x" * 300_000, 300_005)


def test_a_forked_child_leaves_its_parents_spares_alone(run):
    sender, receiver = run.connector(0), run.connector(1)
    assert sender.put("0", "1", run.name(0), b"p" * LARGE)[0]
    child = os.fork()
    if not child:
        done = False
        try:
            sender.reap_consumed()
            sender.reap_consumed()
            done = sender.put("0", "1", run.name(1), b"c" * LARGE)[0]
            done = done and len(run.spares()) == 2
        finally:
            os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert receiver.get("0", "1", run.name(1))[0] == b"c" * LARGE
    assert sender.put("0", "1", run.name(2), b"q" * LARGE)[0]
    for chunk_id, byte in ((0, b"p"), (2, b"q")):
        assert receiver.get("0", "1", run.name(chunk_id))[0] == byte * LARGE


def test_a_spare_is_no_fifo_to_a_sender(run, pool):
    fill(pool, run.name(), 1)
    sender = WakeSender(run.directory)
    sender.notify(run.spares()[0].rpartition("_")[0])
    sender.close()
    assert read(run.name()) == b"\1" * LARGE
