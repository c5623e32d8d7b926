"""Every branch of the rule, with real processes that are spawned and killed."""

import os
import sys

import pytest

TAKES_PART = "import posix_ipc\n"
"""What makes a process look like a participant: a module for POSIX shared memory is loaded."""
SEGMENT, LOCK = "R_1_0", "shm_R_1_0_lockfile.lock"
PUT_AND_STAY = TAKES_PART + "put('R_1_0'); ready(); pause()"


def judgements(audit):
    return {name: entry[0] for name, entry in audit["entries"].items()}


def reasons(audit, name):
    return "; ".join(audit["entries"][name][1])


def test_an_unread_segment_of_a_living_sender_that_closed_it_is_no_orphan(room):
    sender = room.start(PUT_AND_STAY)
    audit = room.audit()
    assert judgements(audit) == {SEGMENT: "unread", LOCK: "unread"}
    assert f"{sender} (python" in reasons(audit, SEGMENT)
    assert "its 10 bytes were not read" in reasons(audit, SEGMENT)
    room.kill(sender)
    assert judgements(room.audit()) == {SEGMENT: "orphan", LOCK: "orphan"}


def test_a_receiver_that_has_nothing_open_outlives_the_sender(room):
    receiver = room.start(TAKES_PART + "ready(); pause()")
    room.kill(room.start(PUT_AND_STAY))
    assert judgements(room.audit())[SEGMENT] == "unread"
    room.kill(receiver)
    assert judgements(room.audit())[SEGMENT] == "orphan"


def test_a_resource_tracker_that_lives_will_remove_what_its_clients_left(room):
    """As vllm-omni's senders do: the segment is tracked, its lock file is not (W29)."""
    client = room.start(
        "from multiprocessing import shared_memory\n"
        "s = shared_memory.SharedMemory('R_1_0', create=True, size=10); s.close()\n"
        f"open('{LOCK}', 'w').close(); ready(); pause()"
    )
    (tracker,) = room.children(client)
    audit = room.audit()
    assert judgements(audit) == {SEGMENT: "unread", LOCK: "unread"}
    assert f"{tracker} (python" in reasons(audit, SEGMENT)
    room.kill(client)
    room.wait(tracker)
    assert judgements(room.audit()) == {LOCK: "orphan"}


def test_a_program_that_cannot_run_a_connector_proves_nothing(room):
    room.start("ready(); pause()")
    room.kill(room.start(PUT_AND_STAY))
    assert judgements(room.audit())[SEGMENT] == "orphan"


def test_open_and_mapped_files_are_live_whoever_has_them(room):
    opener = room.start("put('A_1_0'); f = open('A_1_0'); ready(); pause()")
    mapper = room.start(
        "import mmap; put('B_1_0'); f = open('B_1_0'); m = mmap.mmap(f.fileno(), 10, prot=mmap.PROT_READ)\n"
        "f.close(); ready(); pause()"
    )
    audit = room.audit()
    assert judgements(audit) == dict.fromkeys(audit["entries"], "live")
    assert audit["entries"]["A_1_0"][2] == [[opener, "open"]]
    assert [mapper, "mapped"] in audit["entries"]["B_1_0"][2]
    assert str(opener) in reasons(audit, "shm_A_1_0_lockfile.lock")


def test_a_name_that_was_made_anew_is_told_from_the_file_that_somebody_has_open(room):
    room.start("put('R_1_0'); f = open('R_1_0'); os.unlink('R_1_0'); put('R_1_0'); ready(); pause()")
    audit = room.audit()
    assert judgements(audit) == {SEGMENT: "orphan", LOCK: "orphan"}
    assert audit["entries"][SEGMENT][2] == []


def test_a_held_lock_file_makes_its_segment_live(room):
    room.start(f"put('R_1_0'); f = open('{LOCK}'); fcntl.flock(f, fcntl.LOCK_EX); ready(); pause()")
    assert judgements(room.audit()) == {SEGMENT: "live", LOCK: "live"}


ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root to start a process of another user")
AS_USER = TAKES_PART + "become(54321); put('S_1_0'); ready(); pause()"


@ROOT_ONLY
def test_only_processes_of_the_files_user_can_be_participants(room):
    other = room.start(TAKES_PART + "become(54321); ready(); pause()")
    room.kill(room.start(PUT_AND_STAY))
    assert judgements(room.audit())[SEGMENT] == "orphan"
    room.kill(other)
    owner = room.start(AS_USER)
    assert judgements(room.audit())["S_1_0"] == "unread"
    room.kill(owner)
    assert judgements(room.audit())["S_1_0"] == "orphan"


@ROOT_ONLY
def test_a_process_that_may_not_be_read_is_said_and_never_guessed_away(room):
    """Seen by an ordinary user: what the kernel closes to him counts when it runs under his files' user."""
    room.kill(room.start(AS_USER))
    look = (
        "from omni_verify.audit import take_audit\nbecome(54321)\ndef look():\n"
        "    found = take_audit(); (f,) = [f for f in found.findings if f.item.meaning.kind == 'segment']\n"
        "    return f'{f.judgement}: {f.reasons} {len(found.unreadable)} unreadable'\n"
        "open('seen', 'w').write(look()); ready(); pause()"
    )
    # Not dumpable, so that even its own user may not look into it; root's processes are closed to him anyway.
    closed = room.start("become(54321); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); ready(); pause()")
    room.kill(room.start(look))
    seen = room.run("cat", "/dev/shm/seen")[1]
    assert seen.startswith("unread") and f"{closed} (python" in seen and "unreadable" in seen
    room.kill(closed)
    room.kill(room.start(look))
    seen = room.run("cat", "/dev/shm/seen")[1]
    assert seen.startswith("orphan") and " 0 unreadable" not in seen


def test_another_mount_of_shared_memory_is_out_of_reach(room):
    room.start(
        TAKES_PART
        + "from omni_verify.audit import namespace; os.chdir('/'); namespace.enter(); ready(); pause()"
    )
    room.kill(room.start(PUT_AND_STAY))
    assert judgements(room.audit())[SEGMENT] == "orphan"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a process namespace")
def test_in_a_container_nothing_is_proven_unless_its_shared_memory_is_stated_to_be_private(room):
    program = (
        "from omni_verify.audit import Scope, take_audit\n"
        "for sees_all in (False, True):\n"
        "    found = take_audit(Scope(sees_all=sees_all)).findings[0]\n"
        "    print(found.judgement, found.reasons[0])"
    )
    make = 'mount -t tmpfs other /dev/shm; touch /dev/shm/R_1_0 /dev/shm/shm_R_1_0_lockfile.lock; exec "$@"'
    code, out, err = room.run(
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        make,
        "sh",
        sys.executable,
        "-c",
        program,
    )
    assert code == 0, err
    stated = out.splitlines()
    assert stated[0].startswith("unread") and "container" in stated[0]
    assert stated[1].startswith("orphan")


def test_a_segment_without_its_lock_file_is_not_certainly_a_chunk(room):
    room.kill(room.start("put('R_1_0', lock=False); ready(); pause()"))
    audit = room.audit()
    assert judgements(audit) == {SEGMENT: "unread"}
    assert "no lock file" in reasons(audit, SEGMENT)


@pytest.mark.parametrize(
    "name", ["psm_1", "sem.x", "torch_17_42_0", "R_01_0", "shm_R_lockfile.lock", "x", "omni_shm_wake_0_ab"]
)
def test_what_is_not_of_the_grammar_is_foreign(room, name):
    room.start(f"open({name!r}, 'w').close(); ready(); pause()")
    assert room.audit()["entries"] == {} and room.audit()["foreign"] == [name]


def test_a_name_of_the_grammar_with_another_file_type_is_foreign(room):
    room.start("os.mkdir('R_1_0'); os.symlink('/etc/passwd', 'R_1_1'); os.mkfifo('R_1_2'); ready(); pause()")
    assert room.audit()["entries"] == {} and room.audit()["foreign"] == ["R_1_0", "R_1_1", "R_1_2"]


# -- wake directories and journals -------------------------------------------------------------------

STAGE = """
from omni_verify.pipeline.journal import OwnerJournal
from omni_verify.pipeline.lockfile import acquire_fresh
from omni_verify.pipeline.segments import shm_write_bytes
from omni_verify.pipeline.wakeup import WakeReceiver, scope_directory
directory = scope_directory({'wakeup_scope': 'S'})
journal, receiver = OwnerJournal(directory), WakeReceiver(directory, 1)
assert receiver.get_generation() == 0
record = journal.note_intent('R_1_0')
lock = acquire_fresh(keys.lock_path('R_1_0'), 5.0)
journal.note_put(record, lock.inode)
shm_write_bytes(b'x' * 10, 'R_1_0')
lock.release()
ready(); pause()
"""
"""The parts of the reference connector that leave files, in the order of its put; they load no torch."""


def by_kind(audit):
    found = {}
    for name, (judgement, *_rest) in audit["entries"].items():
        inner = name.rpartition("/")[2]
        kind = "owner" if inner.startswith("owner_") else "fifo" if "/" in name else "wake"
        kind = "lock" if name.endswith(".lock") else "segment" if name == SEGMENT else kind
        found[kind] = judgement
    return found


def test_a_reference_stage_is_live_and_after_its_kill_everything_is_an_orphan(room):
    stage = room.start(STAGE)
    expected = {"segment": "unread", "lock": "unread", "wake": "live", "fifo": "live", "owner": "live"}
    assert by_kind(room.audit()) == expected
    assert by_kind(room.audit(prefix="R")) == expected, "a journal ties its wake directory to a prefix"
    assert room.audit(prefix="other")["entries"] == {}
    room.kill(stage)
    audit = room.audit()
    assert by_kind(audit) == dict.fromkeys(expected, "orphan")
    assert f"put by process {stage}, which is dead" in reasons(audit, SEGMENT)
    directory = next(name for name in audit["entries"] if "/" not in name and "wake" in name)
    # made anew under the same name, the lock file is another put's, and the journal says nothing of it
    room.start(f"os.unlink('{LOCK}'); open('spare', 'w'); open('{LOCK}', 'w').close(); ready(); pause()")
    assert "put by process" not in reasons(room.audit(), SEGMENT)
    room.start(f"open('{directory}/notes.txt', 'w').close(); ready(); pause()")
    audit = room.audit()
    assert judgements(audit)[directory] == "unread", "a strange file keeps its directory"
    assert audit["foreign"] == [f"{directory}/notes.txt", "spare"]


def test_a_dead_stage_of_a_launch_that_lives_leaves_no_orphan(room):
    """Its sibling may read the chunk, and sweeps when it closes."""
    sibling = room.start(STAGE.replace("R_1_0", "Q_1_0"))
    dead = room.start(STAGE)
    room.kill(dead)
    audit = room.audit()
    assert "orphan" not in judgements(audit).values()
    assert f"put by process {dead}, which is dead" in reasons(audit, SEGMENT)
    room.kill(sibling)
    assert set(judgements(room.audit()).values()) == {"orphan"}


# -- prefix and trees --------------------------------------------------------------------------------


def test_a_prefix_limits_what_is_looked_at(room):
    room.start("put('run1-a_1_0'); put('run2-a_1_0'); ready(); pause()")
    audit = room.audit(prefix="run1")
    assert sorted(judgements(audit)) == ["run1-a_1_0", "shm_run1-a_1_0_lockfile.lock"]
    assert audit["out_of_scope"] == 2


def test_strangers_do_not_count_when_prefix_and_tree_say_whose_the_files_are(room):
    stranger = room.start(TAKES_PART + "ready(); pause()")
    server = room.start(PUT_AND_STAY)
    room.follow("server", [server])
    assert judgements(room.audit(follow="server", prefix="R"))[SEGMENT] == "unread"
    room.kill(server)
    assert judgements(room.audit())[SEGMENT] == "unread"
    assert judgements(room.audit(follow="server"))[SEGMENT] == "unread", "a tree alone says not whose it is"
    audit = room.audit(follow="server", prefix="R")
    assert judgements(audit)[SEGMENT] == "orphan"
    assert f"the tree of {server} is dead" in reasons(audit, SEGMENT)
    room.kill(stranger)


def test_a_server_that_was_dead_before_anybody_followed_it_narrows_nothing(room):
    room.start(TAKES_PART + "ready(); pause()")
    server = room.start(PUT_AND_STAY)
    room.kill(server)
    room.follow("late", [server])
    assert judgements(room.audit(follow="late", prefix="R"))[SEGMENT] == "unread"


def test_a_child_that_outlives_its_server_keeps_the_tree_alive(room):
    server = room.start(
        TAKES_PART + "put('R_1_0')\nif os.fork(): ready()\npause()",
    )
    (child,) = room.children(server)
    room.follow("server", [server])
    assert room.audit(follow="server", prefix="R")["trees"] == [server, child]
    room.kill(server)
    audit = room.audit(follow="server", prefix="R")
    assert audit["trees"] == [child] and judgements(audit)[SEGMENT] == "unread"
    room.kill(child)
    assert judgements(room.audit(follow="server", prefix="R"))[SEGMENT] == "orphan"


def test_a_process_that_started_after_the_watch_may_be_a_child_of_the_dead_server(room):
    server = room.start(PUT_AND_STAY)
    room.follow("server", [server])
    room.audit(follow="server", prefix="R")
    newcomer = room.start(TAKES_PART + "ready(); pause()")
    room.kill(server)
    assert judgements(room.audit(follow="server", prefix="R"))[SEGMENT] == "unread"
    room.kill(newcomer)
    assert judgements(room.audit(follow="server", prefix="R"))[SEGMENT] == "orphan"


def test_the_pid_of_a_shell_that_left_its_server_to_itself_says_nothing(room):
    """The server was handed over before anybody looked: outside the tree, but no stranger."""
    shell = room.start("ready(); pause()")
    room.start(PUT_AND_STAY)
    room.follow("shell", [shell])
    assert judgements(room.audit(follow="shell", prefix="R"))[SEGMENT] == "unread"
    room.kill(shell)
    assert judgements(room.audit(follow="shell", prefix="R"))[SEGMENT] == "unread"
