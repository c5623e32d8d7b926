"""Arrival hints: they wake the right stage, and nothing depends on them."""

import os
import stat
import threading
import uuid

import pytest

from omni_verify.contracts.keys import WAKE_DIRECTORY_PATTERN, WAKE_FIFO_PATTERN, owner_name
from omni_verify.pipeline import wakeup
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
from omni_verify.pipeline.wakeup import ENABLE_VARIABLE, WakeReceiver, WakeSender, scope_directory

WAIT_S = 30


@pytest.fixture
def directory():
    directory = scope_directory({"wakeup_scope": uuid.uuid4().hex})
    yield directory
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        os.unlink(f"{directory}/{name}")
    if os.path.isdir(directory):
        os.rmdir(directory)


@pytest.fixture
def receiver(directory):
    receiver = WakeReceiver(directory, 1)
    yield receiver
    receiver.close()


def test_names_and_modes(directory, receiver):
    assert receiver.get_generation() == 0
    (name,) = os.listdir(directory)
    assert WAKE_FIFO_PATTERN.fullmatch(name)["stage"] == "1"
    assert WAKE_DIRECTORY_PATTERN.fullmatch(os.path.basename(directory))
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    mode = os.stat(f"{directory}/{name}").st_mode
    assert stat.S_ISFIFO(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert scope_directory({}).endswith(f"_{os.getuid()}_{os.getppid()}")


def test_hint_wakes_its_stage_only(directory, receiver):
    other = WakeReceiver(directory, 11)
    seen, other_seen = receiver.get_generation(), other.get_generation()
    WakeSender(directory).notify("1")
    assert receiver.wait_for_change(seen, timeout=WAIT_S)
    assert not other.wait_for_change(other_seen, timeout=0)
    assert not receiver.wait_for_change(receiver.get_generation(), timeout=0)
    other.close()


def test_hint_between_poll_and_wait_is_not_lost(directory, receiver):
    generation = receiver.get_generation()
    WakeSender(directory).notify(1)
    assert receiver.wait_for_change(generation, timeout=0)
    assert receiver.wait_for_change(generation, timeout=0)  # an old snapshot stays changed


def test_sender_finds_receivers_that_come_and_go(directory, receiver):
    sender = WakeSender(directory)
    sender.notify("1")  # no directory yet
    generation = receiver.get_generation()
    sender.notify("1")
    assert receiver.wait_for_change(generation, timeout=WAIT_S)
    for _ in range(20):
        late = WakeReceiver(directory, 1)
        generation = late.get_generation()
        sender.notify("1")
        assert late.wait_for_change(generation, timeout=WAIT_S)
        late.close()
        sender.notify("1")


def test_receiver_that_opens_within_one_clock_tick_of_the_listing_is_found(directory, receiver, monkeypatch):
    sender = WakeSender(directory)
    receiver.get_generation()
    listed = os.stat(directory).st_mtime_ns
    monkeypatch.setattr(wakeup.time, "time_ns", lambda: listed)
    sender.notify("1")
    late = WakeReceiver(directory, 1)
    generation = late.get_generation()
    os.utime(directory, ns=(listed, listed))  # as if the clock had not moved since the listing
    sender.notify("1")
    assert late.wait_for_change(generation, timeout=0)
    late.close()


def test_stale_and_foreign_files_are_ignored(directory, receiver):
    generation = receiver.get_generation()
    os.mkfifo(f"{directory}/1_{'a' * 32}")  # nobody reads it
    with open(f"{directory}/1_{'b' * 32}", "x"):
        pass
    os.symlink("/dev/null", f"{directory}/1_{'c' * 32}")
    WakeSender(directory).notify("1")
    assert receiver.wait_for_change(generation, timeout=WAIT_S)
    assert os.path.getsize(f"{directory}/1_{'b' * 32}") == 0


def test_a_crash_journal_is_no_receiver(directory, receiver):
    generation = receiver.get_generation()
    with open(f"{directory}/{owner_name(os.getpid(), 'd' * 32)}", "x"):
        pass
    sender = WakeSender(directory)
    sender.notify("1")
    assert receiver.wait_for_change(generation, timeout=WAIT_S)
    assert list(sender._fifos) == ["1"]
    sender.close()


def test_sender_keeps_a_fifo_open_and_lets_go_of_those_that_went(directory, receiver):
    receiver.get_generation()
    sender, before = WakeSender(directory), len(os.listdir("/proc/self/fd"))
    others = [WakeReceiver(directory, 1) for _ in range(3)]
    for other in others:
        other.get_generation()
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        sender.notify("1")
    assert len(os.listdir("/proc/self/fd")) == opened + 4 + 1  # and the directory
    for other in others:
        other.close()
    generation = receiver.get_generation()
    sender.notify("1")
    assert len(os.listdir("/proc/self/fd")) == before + 2
    assert receiver.wait_for_change(generation, timeout=WAIT_S)
    sender.close()
    sender.close()
    sender.notify("1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_receiver_that_was_killed_is_let_go(directory, receiver):
    receiver.get_generation()
    sender, before = WakeSender(directory), len(os.listdir("/proc/self/fd"))
    sender.notify("1")
    os.close(receiver._read_fd)  # what a kill does: both ends close, the file stays
    os.close(receiver._write_fd)
    receiver._read_fd = receiver._write_fd = -1
    for _ in range(2):
        sender.notify("1")
        assert len(os.listdir("/proc/self/fd")) == before - 2 + 1  # the directory stays open


def test_full_fifo_neither_blocks_nor_raises(directory, receiver):
    generation = receiver.get_generation()
    sender = WakeSender(directory)
    for _ in range(70_000 // 8):
        sender.notify("1")
    assert receiver.wait_for_change(generation, timeout=0)


def test_close_wakes_the_waiter_and_removes_the_fifo(directory, receiver):
    generation = receiver.get_generation()
    results = []
    thread = threading.Thread(
        target=lambda: results.append(receiver.wait_for_change(generation, timeout=WAIT_S))
    )
    thread.start()
    receiver.close()
    receiver.close()
    thread.join(WAIT_S)
    assert results == [False]
    assert os.listdir(directory) == []
    assert receiver.get_generation() is None
    assert not receiver.wait_for_change(0, timeout=0)


def test_environment_variable_turns_hints_off(directory, monkeypatch):
    monkeypatch.setenv(ENABLE_VARIABLE, "0")
    receiver = WakeReceiver(directory, 1)
    assert receiver.get_generation() is None
    WakeSender(directory).notify("1")
    assert not os.path.exists(directory)


def test_unusable_directory_means_timed_polling(directory):
    os.symlink("/tmp", directory)
    receiver = WakeReceiver(directory, 1)
    assert receiver.get_generation() is None
    os.unlink(directory)


@pytest.mark.parametrize("hint", ["on", "off", "dropped", "doubled"])
def test_delivery_does_not_depend_on_hints(monkeypatch, hint):
    prefix = f"ut{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv(ENABLE_VARIABLE, "0" if hint == "off" else "1")
    repeat = {"dropped": 0, "doubled": 2}.get(hint, 1)
    real = wakeup.WakeSender.notify
    monkeypatch.setattr(
        wakeup.WakeSender, "notify", lambda self, stage: [real(self, stage) for _ in range(repeat)]
    )
    config = {"wakeup_scope": prefix}
    with (
        SharedMemoryConnector({"stage_id": 0, **config}) as a,
        SharedMemoryConnector({"stage_id": 1, **config}) as b,
    ):
        assert (b.get_wakeup_generation() is None) == (hint == "off")
        for chunk_id in range(3):
            a.put("0", "1", f"{prefix}_0_{chunk_id}", chunk_id)
        assert [b.get("0", "1", f"{prefix}_0_{chunk_id}")[0] for chunk_id in range(3)] == [0, 1, 2]
    assert not os.path.exists(scope_directory(config))
    assert not [name for name in os.listdir("/dev/shm") if prefix in name]
