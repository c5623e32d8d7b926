"""Bounds come from the environment, and a wrong one is refused by name."""

import pytest

from omni_verify.errors import UsageError
from omni_verify.settings import Settings, load


def test_defaults():
    assert load({}) == Settings()
    assert load({"OMNI_VERIFY_OTHER": "x", "GATE_S": "1"}) == Settings()


@pytest.mark.parametrize("field", Settings.__struct_fields__)
def test_each_bound_has_its_variable(field):
    loaded = load({f"OMNI_VERIFY_{field.upper()}": "1.5"})
    assert getattr(loaded, field) == 1.5
    assert {f for f in Settings.__struct_fields__ if getattr(loaded, f) != getattr(Settings(), f)} == {field}
    assert f"OMNI_VERIFY_{field.upper()}" in Settings.__doc__


@pytest.mark.parametrize("value", ["", "soon", "0", "-1", "nan", "inf", "1e9", "1,5"])
def test_a_bound_that_is_no_bound_is_refused(value):
    with pytest.raises(UsageError, match=r"OMNI_VERIFY_GATE_S must be a positive number of seconds, got"):
        load({"OMNI_VERIFY_GATE_S": value})


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("OMNI_VERIFY_CASE_S", "7")
    assert load().case_s == 7
