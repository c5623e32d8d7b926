"""Text of others is shown and does nothing; a name that is no UTF-8 can be reported."""

import json
import os

import pytest

from omni_verify.errors import UsageError
from omni_verify.report import check_writable, write_json, write_text
from omni_verify.report.plain import plain

NAME = os.fsdecode(b"caf\xe9")


def test_what_is_not_printable_is_written_as_its_escape():
    assert plain("a\n\x1b[31m\u202e\u2028b\x00") == r"a\n\x1b[31m\u202e\u2028b\x00"
    assert plain(NAME) == r"caf\xe9"
    assert plain("Ünïcode [red] 語 #") == "Ünïcode [red] 語 #"
    assert plain("a\nb\x07", keep="\n") == "a\nb\\x07"


def test_a_name_that_is_no_utf8_is_reported(tmp_path):
    write_json(str(tmp_path / "x.json"), {"names": [NAME, "a\nb"], NAME: 1})
    assert json.loads((tmp_path / "x.json").read_text()) == {"names": ["caf\\xe9", "a\nb"], "caf\\xe9": 1}
    write_text(str(tmp_path / "x.txt"), NAME)


@pytest.mark.parametrize("where", ["", "a\0b", "/proc/x/y.json", "/proc/x", "/"])
def test_a_place_that_cannot_be_written_is_refused_before_the_run(where):
    with pytest.raises(UsageError, match=r"cannot write|names no file"):
        check_writable(where)
    with pytest.raises(UsageError, match=r"cannot write|names no file"):
        write_text(where, "text")
    check_writable("-")
    check_writable(None)
