"""The directory audit: ours by grammar and prefix, foreign files listed and never touched."""

import os

import pytest

from omni_verify.audit.shm import scan, sweep
from omni_verify.contracts import keys
from omni_verify.errors import UsageError

PREFIX = "run7"


@pytest.fixture
def root(tmp_path):
    """A folder that looks like /dev/shm after a bad run, beside other programs' files."""
    odd = keys.file_name(f"{PREFIX}a/b_1_0")
    files = {
        f"{PREFIX}R_1_0": b"abc",
        keys.lock_name(f"{PREFIX}R_1_0"): b"",
        odd: b"x",
        "other_1_0": b"zz",
        "psm_12345": b"",
        "sem.thing": b"",
        keys.lock_name("other_1_1"): b"",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for scope in (PREFIX, "somebody-else"):
        wake = tmp_path / os.path.basename(keys.wake_directory(os.getuid(), 0, scope))
        wake.mkdir()
        os.mkfifo(wake / keys.wake_fifo_name(2, "a" * 32))
        (wake / keys.owner_name(17, "b" * 32)).write_bytes(b"")
    return tmp_path


def test_a_prefix_selects_segments_locks_and_the_wake_directory_of_its_scope(root):
    found = scan(PREFIX, str(root))
    escaped = keys.file_name(f"{PREFIX}a/b_1_0").replace(PREFIX, "")
    assert found.names("segment") == tuple(sorted(("R_1_0", escaped)))
    assert found.names("lock") == ("R_1_0",)
    assert len(found.select("fifo")) == len(found.select("owner")) == len(found.select("wake")) == 1
    assert {"other_1_0", "psm_12345", "sem.thing"} <= set(found.foreign)
    assert next(e for e in found.entries if e.name == f"{PREFIX}R_1_0").size == 3


def test_without_prefix_everything_of_the_grammar_counts_and_nothing_else(root):
    found = scan("", str(root))
    assert {"other_1_0", f"{PREFIX}R_1_0"} <= set(found.names("segment"))
    assert len(found.select("wake")) == 2
    assert set(found.foreign) == {"psm_12345", "sem.thing"}


def test_launchers_add_their_wake_directories(root):
    wake = root / os.path.basename(keys.wake_directory(os.getuid(), 4242))
    wake.mkdir()
    assert len(scan(PREFIX, str(root)).select("wake")) == 1
    assert len(scan(PREFIX, str(root), launchers=[4242]).select("wake")) == 2


def test_sweep_removes_ours_only(root):
    foreign = set(scan(PREFIX, str(root)).foreign)
    assert len(sweep(PREFIX, str(root))) == 6
    assert not scan(PREFIX, str(root))
    assert foreign == set(os.listdir(root))


def test_sweep_without_prefix_is_refused(root):
    with pytest.raises(UsageError, match="prefix"):
        sweep("", str(root))


def test_a_file_that_vanishes_during_the_scan_is_no_error(root, monkeypatch):
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: [*real(path), f"{PREFIX}gone_1_0"])
    assert "gone_1_0" not in scan(PREFIX, str(root)).names("segment")
