"""The watch: create and remove in the kernel's order, with their meaning, in a private folder of files."""

import os

import pytest

from omni_verify.audit.meaning import meaning_of
from omni_verify.audit.watch import Watch
from omni_verify.contracts import keys
from omni_verify.errors import TargetUnusableError


def seen(watch):
    sightings = []
    watch.run(0.01, sightings.append, lambda: None)
    return [(s.action, s.name) for s in sightings], sightings


def test_files_come_and_go_in_order_with_their_meaning(tmp_path):
    with Watch(str(tmp_path)) as watch:
        (tmp_path / "shm_R_1_0_lockfile.lock").touch()
        (tmp_path / "R_1_0").touch()
        (tmp_path / "psm_1").touch()
        (tmp_path / "R_1_0").unlink()
        actions, sightings = seen(watch)
    assert actions == [
        ("created", "shm_R_1_0_lockfile.lock"),
        ("created", "R_1_0"),
        ("created", "psm_1"),
        ("removed", "R_1_0"),
    ]
    assert sightings[1].meaning == meaning_of("R_1_0") and sightings[2].meaning is None
    assert (sightings[1].meaning.request, sightings[1].meaning.stage, sightings[1].meaning.chunk) == (
        "R",
        "1",
        0,
    )
    assert watch.counts.created == {"lock": 1, "segment": 1, "foreign": 1}
    assert (watch.counts.present, watch.counts.most_present) == (0, 1)


def test_a_wake_directory_is_followed_also_when_it_was_there_before(tmp_path):
    old, new = (os.path.basename(keys.wake_directory(os.getuid(), pid)) for pid in (1, 2))
    fifo = keys.wake_fifo_name(2, "a" * 32)
    (tmp_path / old).mkdir()
    with Watch(str(tmp_path)) as watch:
        os.mkfifo(tmp_path / old / fifo)
        (tmp_path / new).mkdir()
        os.mkfifo(tmp_path / new / fifo)
        before, _ = seen(watch)
        (tmp_path / new / fifo).unlink()
        (tmp_path / new).rmdir()
        after, _ = seen(watch)
    assert before == [("created", f"{old}/{fifo}"), ("created", new), ("created", f"{new}/{fifo}")]
    assert after == [("removed", f"{new}/{fifo}"), ("removed", new)]


def test_a_prefix_hides_other_requests(tmp_path):
    (tmp_path / "run1_1_0").touch()
    with Watch(str(tmp_path), "run1") as watch:
        for name in ("run1_1_1", "run2_1_0", "psm_1"):
            (tmp_path / name).touch()
        actions, _ = seen(watch)
    assert actions == [("created", "run1_1_1")]
    assert watch.counts.present == 2, "what was there before counts as present"


def test_the_watch_ends_by_an_exception_and_keeps_its_counts(tmp_path):
    with Watch(str(tmp_path)) as watch:
        (tmp_path / "R_1_0").touch()

        def stop():
            raise KeyboardInterrupt("SIGTERM")

        with pytest.raises(KeyboardInterrupt):
            watch.run(None, lambda _sighting: None, stop)
    assert watch.counts.created == {"segment": 1}


def test_a_folder_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(TargetUnusableError, match="cannot watch"):
        Watch(str(tmp_path / "none"))
