"""Errors carry their exit code and name the nearest valid value."""

import pytest

from omni_verify.errors import OmniVerifyError, TargetUnusableError, UsageError, unknown_value


def test_exit_codes():
    assert [e.exit_code for e in (OmniVerifyError, UsageError, TargetUnusableError)] == [70, 2, 4]
    assert issubclass(UsageError, OmniVerifyError)
    assert issubclass(TargetUnusableError, OmniVerifyError)


@pytest.mark.parametrize(
    ("got", "valid", "text"),
    [
        (
            "put.entr",
            ["put.enter", "get.exit"],
            "unknown point 'put.entr'. Did you mean 'put.enter'? Valid: get.exit, put.enter.",
        ),
        ("zzz", ["put.enter"], "unknown point 'zzz'. Valid: put.enter."),
        (
            "early-stop",
            ["least", "stop-early"],
            "unknown point 'early-stop'. Did you mean 'stop-early'? Valid: least, stop-early.",
        ),
        (
            "Trace_Put",
            ["get", "put-trace"],
            "unknown point 'Trace_Put'. Did you mean 'put-trace'? Valid: get, put-trace.",
        ),
        ("x", [], "unknown point 'x'. Valid: none."),
        (None, ["none"], "unknown point None. Did you mean 'none'? Valid: none."),
    ],
)
def test_unknown_value(got, valid, text):
    error = unknown_value("point", got, valid)
    assert isinstance(error, UsageError)
    assert str(error) == text


def test_a_long_list_is_cut_and_counted():
    text = str(unknown_value("scenario", "n99", [f"n{i:02}" for i in range(30)] * 2, hint="List them."))
    assert "n11, … (30 in all). List them." in text
    assert "n12" not in text
