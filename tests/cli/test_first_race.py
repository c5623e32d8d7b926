"""The tutorial "Your first race in five minutes": every block is run, every output compared."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from omni_verify.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "first-race.md"
BLOCK = re.compile(r"```(python|console)\n(.*?)\n```(?:\n\nIt exits (\d)\.)?", re.DOTALL)


def _steady(text: str) -> str:
    """Without what depends on the clock."""
    return re.sub(r" +[\d.]+ s\b", " T s", text).strip()


def test_the_page_says_what_happens(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    ran = 0
    for kind, body, code in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            Path("seats.py").write_text(body + "\n")
            continue
        command, _, expected = body.partition("\n")
        argv = shlex.split(command.removeprefix("$ omni-verify "))
        assert main(argv) == int(code), command
        assert _steady(capfd.readouterr().out) == _steady(expected), command
        ran += 1
    assert ran == 4


def test_the_page_shows_the_example():
    assert (ROOT / "examples" / "first_race" / "seats.py").read_text().strip() in PAGE.read_text()


def test_the_promoted_test_fails_while_the_race_is_there(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    source, token = (ROOT / "examples" / "first_race" / "seats.py").read_text(), ""
    Path("seats.py").write_text(source)
    token = re.search(r"replay (ov1\.\S+)", PAGE.read_text())[1]
    assert main(["promote", token, "--program", "seats.py:last_seat"]) == 0
    namespace: dict[str, object] = {}
    exec(Path("test_last_seat.py").read_text(), namespace)
    with pytest.raises(AssertionError, match="sold twice"):
        namespace["test_last_seat"]()
    with contextlib.suppress(AssertionError):
        Path("seats.py").write_text(source.replace("self.seats > 0", "False"))
        namespace["test_last_seat"]()
    capfd.readouterr()
