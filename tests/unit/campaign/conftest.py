"""Zygotes that hold the fake target of `tests/support`."""

import functools
import sys
from pathlib import Path

import pytest

from omni_verify.campaign import Zygote
from omni_verify.settings import Settings

SUPPORT = str(Path(__file__).parents[2] / "support")


@pytest.fixture
def make_zygote(monkeypatch):
    """A zygote factory; closes what it made."""
    monkeypatch.syspath_prepend(SUPPORT)
    monkeypatch.setenv("PYTHONPATH", SUPPORT)
    made = []

    @functools.wraps(Zygote)
    def make(spec="fake", loader="auto", **options):
        options["settings"] = options.get("settings") or Settings(case_s=20, load_s=20)
        zygote = Zygote(
            spec,
            loader,
            resolver="fake_target:resolve",
            case_entry="fake_target:run",
            catalogue="fake_catalogue",
            **options,
        )
        made.append(zygote)
        return zygote

    yield make
    for zygote in made:
        zygote.close()
    assert not [p for p in Path("/dev/shm").iterdir() for z in made if z.prefix in p.name]


@pytest.fixture
def catalogue(make_zygote):
    """The fake scenarios, registered in this process as well."""
    from omni_verify.harness.scenario import load_catalogue

    assert "fake_catalogue" not in sys.modules or sys.modules["fake_catalogue"].__file__.startswith(SUPPORT)
    return load_catalogue("fake_catalogue")
