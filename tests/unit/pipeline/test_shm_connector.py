"""The shared-memory connector on real shared memory: whole values, consumed once, nothing left behind."""

import fcntl
import gc
import os
import subprocess
import sys
import threading
import uuid

import pytest
import torch

from omni_verify.contracts.keys import SHM_ROOT, build_key, file_name, lock_path, segment_path
from omni_verify.pipeline import lockfile, shm_connector
from omni_verify.pipeline.segments import shm_write_bytes
from omni_verify.pipeline.serde import OmniSerializer, PayloadDecodeError
from omni_verify.pipeline.shm_connector import SharedMemoryConnector

WAIT_S = 30  # bound of every wait; reaching it is a failure


class Run:
    """Connectors of one scope, and a unique prefix that every external id of the test contains."""

    def __init__(self):
        self.prefix = f"ut{uuid.uuid4().hex[:12]}"
        self.connectors = []

    def connector(self, stage_id=0, **extra):
        config = {"stage_id": stage_id, "wakeup_scope": self.prefix, "lock_timeout_s": 0.2, **extra}
        self.connectors.append(SharedMemoryConnector(config))
        return self.connectors[-1]

    def key(self, chunk_id=0, external_id=""):
        return build_key(self.prefix + external_id, 0, chunk_id)

    def files(self):
        return sorted(name for name in os.listdir(SHM_ROOT) if self.prefix in name)

    def close(self):
        for connector in self.connectors:
            connector.close()


@pytest.fixture
def run():
    run = Run()
    yield run
    run.close()
    left = run.files()
    for name in left:
        os.unlink(f"{SHM_ROOT}/{name}")
    assert left == []
    assert not os.path.exists(shm_connector.scope_directory({"wakeup_scope": run.prefix}))


@pytest.fixture
def sender(run):
    return run.connector(0)


@pytest.fixture
def receiver(run):
    return run.connector(1)


def put(connector, key, data):
    return connector.put(from_stage="0", to_stage="1", put_key=key, data=data)


def get(connector, key, metadata=None):
    return connector.get("0", "1", key, metadata)


# ---------------------------------------------------------------- transfer


def test_put_then_get_delivers_and_leaves_nothing(run, sender, receiver):
    ok, size, metadata = put(sender, run.key(), {"codes": {"audio": torch.arange(5)}})
    assert (ok, metadata) == (True, {"shm": {"name": run.key(), "size": size}, "size": size})
    assert run.files() == sorted([run.key(), f"shm_{run.key()}_lockfile.lock"])
    payload, received = get(receiver, run.key())
    assert received == size
    assert torch.equal(payload["codes"]["audio"], torch.arange(5))
    assert run.files() == []
    assert get(receiver, run.key()) is None


@pytest.mark.parametrize("size", [0, 1, 65_535 - 200, 65_536, 300_000, 9_000_000])
def test_values_of_every_size_arrive_whole(run, sender, receiver, size):
    data = os.urandom(size)
    assert put(sender, run.key(), data)[0]
    assert get(receiver, run.key()) == (data, len(OmniSerializer.serialize(data)))


def test_metadata_is_optional_and_its_size_is_not_believed(run, sender, receiver):
    for chunk_id, wrap in enumerate([lambda m, k: m, lambda m, k: {k: m}, lambda m, k: {"source_host": "x"}]):
        key = run.key(chunk_id)
        metadata = put(sender, key, "value")[2]
        metadata["shm"]["size"] = 1
        assert get(receiver, key, wrap(metadata, key))[0] == "value"
    put(sender, run.key(9), "value")
    assert get(receiver, run.key(9), {"shm": {"name": "../etc/passwd"}})[0] == "value"


def test_later_put_replaces_an_unread_value_without_a_leak(run, sender, receiver):
    put(sender, run.key(), "first")
    put(run.connector(0), run.key(), "second, and longer")
    assert len(run.files()) == 2
    assert get(receiver, run.key())[0] == "second, and longer"
    assert run.files() == []


def test_segment_without_lock_file_is_readable(run, sender, receiver):
    put(sender, run.key(), 1)
    os.unlink(lock_path(run.key()))
    assert get(receiver, run.key()) == (1, 1)
    assert run.files() == []


def test_lock_file_that_cannot_be_removed_does_not_lose_the_value(run, sender, receiver, monkeypatch):
    put(sender, run.key(), 1)

    def refuse(path):
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(lockfile.os, "remove", refuse)
        assert get(receiver, run.key()) == (1, 1)
    assert put(sender, run.key(), 2)[0]  # the lock file that stayed is no obstacle
    assert get(receiver, run.key()) == (2, 1)


def test_two_readers_of_one_key_get_it_once(run, sender):
    readers = [run.connector(1), run.connector(1)]
    barrier = threading.Barrier(2)
    taken = {chunk_id: [] for chunk_id in range(50)}

    def read(connector):
        for chunk_id, results in taken.items():
            barrier.wait(WAIT_S)
            result = get(connector, run.key(chunk_id))
            results.append(result and result[0])

    for chunk_id in taken:
        put(sender, run.key(chunk_id), chunk_id)
    threads = [threading.Thread(target=read, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    for chunk_id, results in taken.items():
        # A reader that meets the other's lock comes back with nothing, while the other succeeds.
        assert sorted(results, key=str) == sorted([None, chunk_id], key=str)


# ---------------------------------------------------------------- states that read as "not yet"


def test_empty_segment_reads_as_not_yet(run, receiver):
    open(segment_path(run.key()), "xb").close()
    assert get(receiver, run.key()) is None
    assert os.path.exists(segment_path(run.key()))
    assert receiver.cleanup(run.key()) is True


def test_get_returns_at_once_while_the_lock_is_held(run, sender, receiver):
    put(sender, run.key(), 1)
    with open(lock_path(run.key()), "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert get(receiver, run.key()) is None
        assert sender.cleanup(run.key()) is False  # bounded, and the key stays tracked
        assert not put(run.connector(0), run.key(), 2)[0]
    assert get(receiver, run.key()) == (1, 1)


def test_get_during_the_write_sees_nothing(run, sender, receiver, monkeypatch):
    writing, go_on = threading.Event(), threading.Event()
    real = shm_connector.shm_write_bytes

    def slow(payload, name, spares):
        os.close(os.open(segment_path(name), os.O_CREAT | os.O_RDWR))
        writing.set()
        assert go_on.wait(WAIT_S)
        return real(payload, name, spares)

    monkeypatch.setattr(shm_connector, "shm_write_bytes", slow)
    thread = threading.Thread(target=put, args=(sender, run.key(), "whole"))
    thread.start()
    assert writing.wait(WAIT_S)
    assert get(receiver, run.key()) is None
    go_on.set()
    thread.join(WAIT_S)
    assert get(receiver, run.key())[0] == "whole"


# ---------------------------------------------------------------- failures


def test_undecodable_bytes_are_consumed_and_reported(run, receiver):
    shm_write_bytes(b"\xc1", run.key())
    with pytest.raises(PayloadDecodeError):
        get(receiver, run.key())
    assert run.files() == []
    assert get(receiver, run.key()) is None


@pytest.mark.parametrize("created", [False, True])
def test_failed_put_leaves_nothing_and_is_reported(run, sender, monkeypatch, created):
    def fail(payload, name, spares):
        if created:
            shm_write_bytes(payload, name)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shm_connector, "shm_write_bytes", fail)
    assert put(sender, run.key(), 1) == (False, 0, None)
    assert run.files() == []
    assert sender.health()["put_failures"] == 1
    assert not sender._pending_keys


def test_unserializable_payload_fails_the_put_and_spares_the_unread_value(run, sender, receiver):
    put(sender, run.key(), 1)
    assert put(sender, run.key(), {"__tensor__": True}) == (False, 0, None)
    assert put(sender, run.key(), object()) == (False, 0, None)
    assert get(receiver, run.key()) == (1, 1)


def test_put_that_ends_after_close_undoes_itself(run, sender, monkeypatch):
    writing, go_on, results = threading.Event(), threading.Event(), []

    def held(payload, name, spares):
        meta = shm_write_bytes(payload, name)
        writing.set()
        assert go_on.wait(WAIT_S)
        return meta

    monkeypatch.setattr(shm_connector, "shm_write_bytes", held)
    thread = threading.Thread(target=lambda: results.append(put(sender, run.key(), 1)))
    thread.start()
    assert writing.wait(WAIT_S)
    sender.close()
    go_on.set()
    thread.join(WAIT_S)
    assert results == [(False, 0, None)]
    assert run.files() == []
    assert put(sender, run.key(), 1) == (False, 0, None)


FULL_DISK = """
import ctypes, os, sys
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
libc = ctypes.CDLL(None)
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x44000
if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None):
    sys.exit(77)
if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, sys.argv[1].encode()):
    sys.exit(77)
connector = SharedMemoryConnector({"stage_id": 0})
assert connector.put("0", "1", "small_0_0", 1)[0]
assert connector.put("0", "1", "big_0_0", bytes(8 << 20)) == (False, 0, None)
assert not [name for name in os.listdir("/dev/shm") if "big" in name], os.listdir("/dev/shm")
assert connector.get("0", "1", "small_0_0") == (1, 1)
assert connector.put("0", "1", "small_0_1", 1)[0], "space was not given back"
connector.close()
assert os.listdir("/dev/shm") == []
"""


def test_full_file_system_is_a_failed_put():
    command = [sys.executable, "-c", FULL_DISK, "size=1m"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77:
        pytest.skip("a private mount namespace is not permitted here")
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- lock races (I26)


def test_late_reader_cannot_remove_the_next_puts_lock(run, sender, receiver, monkeypatch):
    """A reader pauses just before it removes the lock file; the same key is put again meanwhile."""
    put(sender, run.key(), "old")
    real, results = os.remove, []

    def remove_after_a_put(path):
        monkeypatch.setattr(lockfile.os, "remove", real)
        results.append(put(sender, run.key(), "new"))  # bounded: the reader still holds the lock
        real(path)

    monkeypatch.setattr(lockfile.os, "remove", remove_after_a_put)
    assert get(receiver, run.key())[0] == "old"
    assert results == [(False, 0, None)]
    assert put(sender, run.key(), "new")[0]
    assert get(receiver, run.key())[0] == "new"


@pytest.mark.parametrize("intruder", ["get", "cleanup"])
def test_writer_notices_that_its_lock_file_was_removed(run, sender, receiver, monkeypatch, intruder):
    """Between a writer's open and its flock another thread takes the new lock file and removes it."""
    real = fcntl.flock

    def lose_the_race(fd, operation):
        monkeypatch.setattr(lockfile.fcntl, "flock", real)
        other = lockfile.try_acquire(lock_path(run.key()))
        other.remove()
        other.release()
        getattr(receiver, intruder)(*(("0", "1", run.key()) if intruder == "get" else (run.key(),)))
        real(fd, operation)

    monkeypatch.setattr(lockfile.fcntl, "flock", lose_the_race)
    assert put(sender, run.key(), "value")[0]
    assert os.path.exists(lock_path(run.key()))
    assert get(receiver, run.key())[0] == "value"


def test_reader_with_a_detached_lock_does_not_touch_the_new_segment(run, sender, receiver, monkeypatch):
    """A reader opens the lock file, and before its flock the key is consumed and half written again."""
    put(sender, run.key(), "old")
    real = fcntl.flock
    states = []

    def consumed_and_put_again(fd, operation):
        monkeypatch.setattr(lockfile.fcntl, "flock", real)
        states.append(get(run.connector(1), run.key()))
        writer = lockfile.acquire_fresh(lock_path(run.key()), 1)
        shm_write_bytes(b"\xda\xff", run.key())  # the first bytes of a longer message
        states.append(writer)
        real(fd, operation)

    monkeypatch.setattr(lockfile.fcntl, "flock", consumed_and_put_again)
    assert get(receiver, run.key()) is None
    assert states[0][0] == "old"
    assert os.path.exists(segment_path(run.key()))
    states[1].release()
    assert receiver.cleanup(run.key())


# ---------------------------------------------------------------- reclaim


def test_cleanup_is_exact(run, sender, receiver):
    for external_id in ("task", "task_1_2", "task_0", "x_task"):
        put(sender, run.key(0, external_id), external_id)
    assert sender.cleanup(run.key(0, "task")) is True
    assert sender.cleanup(run.key(0, "task")) is False
    assert sender.cleanup(run.prefix + "task") is False
    assert get(receiver, run.key(0, "task")) is None
    for external_id in ("task_1_2", "task_0", "x_task"):
        assert get(receiver, run.key(0, external_id))[0] == external_id


def test_cleanup_prefix_takes_tracked_chunks_of_one_sequence(run, sender, receiver):
    for chunk_id in range(3):
        put(sender, run.key(chunk_id, "task"), chunk_id)
    put(sender, run.key(0, "task_0_7"), "sibling")
    get(receiver, run.key(1, "task"))
    assert sender.cleanup_prefix(run.prefix + "task_0_") == 2
    assert get(receiver, run.key(0, "task_0_7"))[0] == "sibling"


def test_reap_inspects_64_keys_and_starves_none(run, sender, receiver, monkeypatch):
    for chunk_id in range(130):
        put(sender, run.key(chunk_id), chunk_id)
    for chunk_id in (3, 128, 129):
        get(receiver, run.key(chunk_id))
    seen, real = [], os.path.exists
    monkeypatch.setattr(shm_connector.os.path, "exists", lambda path: seen.append(path) or real(path))
    counts = []
    for _ in range(3):
        sender.reap_consumed()
        counts.append(len(seen))
    assert counts[0] == 64
    assert counts[2] <= 192
    assert sorted(sender._pending_keys) == sorted(run.key(n) for n in range(130) if n not in (3, 128, 129))


def test_puts_alone_forget_consumed_keys(run, sender, receiver):
    for chunk_id in range(300):
        put(sender, run.key(chunk_id), chunk_id)
        get(receiver, run.key(chunk_id))
    assert len(sender._pending_keys) <= shm_connector.PUT_REAP_THRESHOLD


def test_close_reclaims_and_is_idempotent(run, sender, receiver):
    put(sender, run.key(0), 1)
    put(sender, run.key(1), 1)
    os.unlink(lock_path(run.key(1)))
    sender.close()
    assert run.files() == []
    sender.close()
    assert sender.health()["status"] == "closed"
    assert get(receiver, run.key(0)) is None


def test_collecting_a_connector_keeps_unread_chunks(run, receiver):
    dropped = SharedMemoryConnector({"stage_id": 0, "wakeup_scope": run.prefix})
    put(dropped, run.key(), 1)
    journal = dropped._journal
    del dropped
    gc.collect()
    assert get(receiver, run.key()) == (1, 1)
    journal.close()  # what the end of the process would do


@pytest.mark.parametrize("key", [None, 7, b"bytes"])
def test_keys_of_a_wrong_type_fail_cleanly(sender, key):
    assert put(sender, key, 1) == (False, 0, None)
    assert sender.cleanup(key) is False


# ---------------------------------------------------------------- ids (W16)

IDS = ["", "R", "R_1", "R_1_2", "R_1_2_3", "R1", "1_R", "R_", "_R", "R__1", "R_0", "R_1_0", "R.lock", "é日本"]
IDS += [
    "shm_R_1_0_lockfile.lock",
    "r" * 200,
    "%2F x",
    "-R",
    "a/b",
    "a-b",
    "../../etc/x",
    "nul\0",
    "x" * 300,
    "\ud800",
]


def test_every_id_round_trips_and_none_disturbs_another(run, sender, receiver):
    for number, external_id in enumerate(IDS):
        assert put(sender, run.key(0, external_id), number)[0], external_id
    assert len(run.files()) == 2 * len(IDS)
    assert sender.cleanup(run.key(0, "R_1"))
    for number, external_id in enumerate(IDS):
        assert get(receiver, run.key(0, external_id)) == (None if external_id == "R_1" else (number, 1)), (
            external_id
        )
    assert run.files() == []


@pytest.mark.parametrize("start", [".", "-", "/", "omni_key_", "shm_"])
def test_ids_that_start_oddly_round_trip(run, sender, receiver, start):
    key = f"{start}{run.prefix}_0_0"
    metadata = put(sender, key, 1)[2]
    assert metadata["shm"]["name"] == file_name(key)
    assert get(receiver, key, metadata) == (1, 1)


# ---------------------------------------------------------------- two processes

READER = """
import sys
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
connector = SharedMemoryConnector({"stage_id": 1, "wakeup_scope": sys.argv[1]})
for line in sys.stdin:
    print(connector.get("0", "1", line.strip()), flush=True)
connector.close()
"""


def test_another_process_sees_a_put_at_once_and_consumes_it_once(run, sender):
    command = [sys.executable, "-c", READER, run.prefix]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:

        def ask(key):
            child.stdin.write(key + "\n")
            child.stdin.flush()
            return child.stdout.readline().strip()

        assert ask(run.key(0)) == "None"
        for chunk_id in range(20):
            assert put(sender, run.key(chunk_id), [chunk_id])[0]
            assert ask(run.key(chunk_id)) == f"([{chunk_id}], 2)"
            assert ask(run.key(chunk_id)) == "None"
        child.stdin.close()
        assert child.wait(WAIT_S) == 0
    sender.reap_consumed()
    assert not sender._pending_keys
