"""The folder of a soak: one soak at a time, and none of a soak that never began."""

import os

import pytest

from omni_verify.campaign.soak.folder import locked, run_folder
from omni_verify.campaign.soak.record import SERIES
from omni_verify.errors import UsageError


def fail_in(root, *, with_series=False):
    with run_folder(root, "reference") as (folder, _):
        if with_series:
            (folder / SERIES).write_text("{}")
        raise UsageError("it cannot begin")


def test_a_soak_that_never_began_leaves_nothing(tmp_path):
    root = tmp_path / "reports"
    with pytest.raises(UsageError, match="cannot begin"):
        fail_in(root)
    assert not root.exists()
    with run_folder(root, "reference") as (kept, store):
        assert store is not None
    with pytest.raises(UsageError, match="cannot begin"):
        fail_in(root)
    assert {p.name for p in root.iterdir()} == {kept.name, "latest"}
    assert os.readlink(root / "latest") == kept.name


def test_what_was_measured_stays_also_after_an_error(tmp_path):
    with pytest.raises(UsageError, match="cannot begin"):
        fail_in(tmp_path, with_series=True)
    assert (tmp_path / "latest" / SERIES).exists()


def test_a_folder_takes_one_soak_at_a_time(tmp_path):
    with run_folder(tmp_path, "reference") as (folder, _), pytest.raises(UsageError, match="still running"):
        locked(folder).__enter__()
    with locked(folder):
        pass
    with pytest.raises(UsageError, match="no folder of a soak"), locked(tmp_path / "nothing"):
        pass
