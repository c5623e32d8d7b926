"""The crash journal: a killed sender's unread chunks go with the next close, and nobody else's do (I53)."""

import os
import signal
import subprocess
import sys
import uuid

import pytest

from omni_verify.contracts.keys import OWNER_PATTERN, lock_path, segment_path
from omni_verify.pipeline import journal, lockfile, shm_connector
from omni_verify.pipeline.orchestration.pipeline import Pipeline
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
from omni_verify.pipeline.stages.reclaim import remove_what_the_dead_left
from omni_verify.pipeline.wakeup import scope_directory

WAIT_S = 60

SENDER = """
import sys
from omni_verify.pipeline import lockfile, shm_connector
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
scope, moment = sys.argv[1:]
connector = SharedMemoryConnector({"stage_id": 0, "wakeup_scope": scope})
for chunk_id in range(3):
    assert connector.put("0", "1", f"{scope}_0_{chunk_id}", [chunk_id])[0]

def stop(*args, **kwargs):
    print("ready", flush=True)
    sys.stdin.read()

if moment == "locked":
    lockfile.KeyLock.__init__ = stop
elif moment == "writing":
    shm_connector.shm_write_bytes = stop
elif moment == "written":
    real = shm_connector.shm_write_bytes
    shm_connector.shm_write_bytes = lambda payload, name, spares: (real(payload, name, spares), stop())
if moment != "idle":
    connector.put("0", "1", f"{scope}_0_3", [3])
stop()
"""


@pytest.fixture
def scope():
    scope = f"ut{uuid.uuid4().hex[:12]}"
    yield scope
    assert not [name for name in os.listdir("/dev/shm") if scope in name]
    assert not os.path.exists(scope_directory({"wakeup_scope": scope}))


def connector(scope, stage_id=1):
    return SharedMemoryConnector({"stage_id": stage_id, "wakeup_scope": scope})


@pytest.mark.parametrize("moment", ["idle", "locked", "writing", "written"])
def test_sender_killed_with_unread_chunks(scope, moment):
    command = [sys.executable, "-c", SENDER, scope, moment]
    receiver = connector(scope)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        # While the sender lives, a sibling's close removes nothing of it.
        connector(scope, 2).close()
        assert receiver.get("0", "1", f"{scope}_0_0") == ([0], 2)
        child.send_signal(signal.SIGKILL)
        child.wait(WAIT_S)
    # What is unread stays readable until somebody closes, and another sender's put is not touched.
    assert receiver.get("0", "1", f"{scope}_0_1") == ([1], 2)
    successor = connector(scope, 0)
    assert successor.put("0", "1", f"{scope}_0_2", "of the next process")[0]
    receiver.close()
    assert successor.get("0", "1", f"{scope}_0_2")[0] == "of the next process"
    successor.close()


def test_what_a_sibling_spares_because_it_is_busy_goes_when_the_launcher_ends(scope):
    receiver = connector(scope)
    receiver.get_wakeup_generation()
    command = [sys.executable, "-c", SENDER, scope, "idle"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        child.kill()
        child.wait(WAIT_S)
    directory = scope_directory({"wakeup_scope": scope})
    busy = lockfile.acquire(lock_path(f"{scope}_0_1"), WAIT_S)
    receiver.close()
    busy.release()
    (left,) = os.listdir(directory)
    assert OWNER_PATTERN.fullmatch(left), "the sibling was to keep the journal of what it spared"
    assert os.path.exists(segment_path(f"{scope}_0_1"))
    remove_what_the_dead_left(directory)
    assert not os.path.exists(segment_path(f"{scope}_0_1"))


def test_a_pipeline_removes_at_its_end_what_the_dead_left(scope):
    pipeline = Pipeline(load_configs(LaunchOptions()), mode="inline", wakeup_scope=scope)
    for handle in pipeline.handles:
        handle.close()
    command = [sys.executable, "-c", SENDER, scope, "idle"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        child.kill()
        child.wait(WAIT_S)
    pipeline.close()  # the stages are closed already, as if they had been killed too


def test_owner_file_lives_from_the_first_put_to_close(scope):
    directory = scope_directory({"wakeup_scope": scope})
    sender = connector(scope, 0)
    assert not os.path.exists(directory)
    sender.put("0", "1", f"{scope}_0_0", 1)
    (name,) = os.listdir(directory)
    assert int(OWNER_PATTERN.fullmatch(name)["pid"]) == os.getpid()
    sender.close()
    assert not os.path.exists(directory)


def test_journal_stays_small_for_a_long_stream(scope):
    sender, receiver = connector(scope, 0), connector(scope)
    directory = scope_directory({"wakeup_scope": scope})
    sender.put("0", "1", f"{scope}_9_0", "unread all along")
    for chunk_id in range(3000):
        sender.put("0", "1", f"{scope}_0_{chunk_id}", chunk_id)
        receiver.get("0", "1", f"{scope}_0_{chunk_id}")
    sizes = [os.path.getsize(f"{directory}/{name}") for name in os.listdir(directory)]
    assert len(sizes) == 1
    assert sizes[0] < 200_000
    assert f"{scope}_9_0".encode() in journal_text(directory)
    sender.close()
    receiver.close()


def journal_text(directory):
    # Opening the file in this process would end the owner's lock, so another process reads it.
    (name,) = os.listdir(directory)
    return subprocess.run(["cat", f"{directory}/{name}"], stdout=subprocess.PIPE, check=True).stdout


def test_journal_grows_with_what_is_unread(scope):
    directory = scope_directory({"wakeup_scope": scope})
    owner = journal.OwnerJournal(directory)
    for number in range(500):
        owner.note_put(owner.note_intent(f"{scope}_0_{number}"), 10**number if number < 19 else number)
    records = journal_text(directory).partition(b"\0\0")[0].decode().split("\0")
    wanted = [f"{10**n if n < 19 else n:020}/{scope}_0_{n}" for n in range(500)]
    assert records == wanted
    owner.forget_all()
    owner.note_intent("short")
    assert journal_text(directory).startswith(b"0" * 20 + b"/short\0\0")
    owner.close()
    os.rmdir(directory)


def test_put_fails_cleanly_when_the_journal_cannot_be_written(scope, monkeypatch):
    def refuse(path):
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "make_wake_directory", refuse)
        sender = connector(scope, 0)
        assert sender.put("0", "1", f"{scope}_0_0", 1) == (False, 0, None)
    assert not os.path.exists(lock_path(f"{scope}_0_0"))
    assert not os.path.exists(segment_path(f"{scope}_0_0"))
    sender.close()


def test_launching_process_sweeps_its_children(scope, monkeypatch):
    swept = []
    monkeypatch.setattr(shm_connector, "sweep_dead_owners", swept.append)
    with SharedMemoryConnector({"stage_id": 0}):
        pass
    assert sorted(path.rsplit("_", 1)[1] for path in swept) == sorted(map(str, (os.getpid(), os.getppid())))
