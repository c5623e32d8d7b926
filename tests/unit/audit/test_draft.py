"""Files that are put in their place in one step."""

import os
import stat

import pytest

from omni_verify.audit.draft import draft_of, prove_writable


def test_a_file_is_there_at_once_and_whole(tmp_path):
    with draft_of(tmp_path / "a" / "x.json") as draft:
        draft.write_text("{}")
        assert not (tmp_path / "a" / "x.json").exists()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["x.json"]


def test_nothing_is_left_of_one_that_failed(tmp_path):
    (tmp_path / "x").write_text("before")

    def fail():
        with draft_of(tmp_path / "x") as draft:
            draft.write_text("half")
            raise OSError(28, "full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_text() == "before"


def test_what_is_no_regular_file_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with draft_of(pipe) as draft:
        draft.write_text("{}")
    assert os.read(reader, 10) == b"{}" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").write_text("before")
    with draft_of(tmp_path / "link") as draft:
        draft.write_text("after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "after"


def test_a_place_is_tried_without_a_trace(tmp_path):
    prove_writable(tmp_path / "new" / "deep" / "x.json")
    assert not list(tmp_path.iterdir())
    for place in (tmp_path, tmp_path / "file" / "x", "/proc/x/y.json"):
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match=r"directory|Permission|supported"):
            prove_writable(type(tmp_path)(place))
