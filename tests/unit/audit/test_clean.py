"""Removal of orphans: only what is still proven right before it goes."""

import pytest

PUT = "import posix_ipc\nput('R_1_0'); put('S_1_0'); put('psm_1', lock=False)\nready(); pause()"
FILES = ["R_1_0", "S_1_0", "shm_R_1_0_lockfile.lock", "shm_S_1_0_lockfile.lock"]


@pytest.fixture
def leftovers(room):
    """Two chunks of a dead process, remembered as orphans, beside a foreign file."""
    room.kill(room.start(PUT))
    room.remember()
    return room


def test_orphans_go_and_foreign_files_stay(leftovers):
    assert leftovers.clean() == dict.fromkeys(FILES, "")
    assert leftovers.listing() == ["psm_1"]


def test_a_file_made_anew_meanwhile_stays(leftovers):
    """Inode numbers of a tmpfs are never used twice, so the new file has another."""
    kept = leftovers.clean("import os; os.unlink('/dev/shm/R_1_0'); open('/dev/shm/R_1_0', 'w').write('new')")
    assert "replaced" in kept["R_1_0"] and kept["S_1_0"] == ""
    assert "R_1_0" in leftovers.listing()


def test_a_participant_that_comes_meanwhile_keeps_everything(leftovers):
    newcomer = leftovers.start("import posix_ipc; ready(); pause()")
    kept = leftovers.clean()
    assert all(reason.startswith("now unread") and str(newcomer) in reason for reason in kept.values())
    assert leftovers.listing() == ["R_1_0", "S_1_0", "psm_1", *FILES[2:]]


def test_a_held_lock_is_never_waited_for(leftovers):
    leftovers.start("f = open('shm_R_1_0_lockfile.lock'); fcntl.flock(f, fcntl.LOCK_EX); ready(); pause()")
    kept = leftovers.clean()
    assert kept["R_1_0"] == kept["shm_R_1_0_lockfile.lock"] == "its lock is held"
    assert kept["S_1_0"] == ""


def test_what_has_vanished_is_said(leftovers):
    assert "vanished" in leftovers.clean("import os; os.unlink('/dev/shm/S_1_0')")["S_1_0"]


def test_only_orphans_may_be_removed(room):
    room.start("import posix_ipc; put('R_1_0'); ready(); pause()")
    from omni_verify.audit import Finding, Judgement, Scope, clean
    from omni_verify.audit.inventory import Item
    from omni_verify.audit.meaning import meaning_of

    item = Item(name="R_1_0", meaning=meaning_of("R_1_0"), size=1, age_s=9e9, uid=0, device=1, inode=1)
    with pytest.raises(ValueError, match="only proven orphans"):
        clean([Finding(item=item, judgement=Judgement.UNREAD, reasons=())], Scope())
