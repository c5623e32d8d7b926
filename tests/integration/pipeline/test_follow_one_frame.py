"""The tutorial says what happens: its log is the program's output, its links name what the code has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorials" / "follow-one-frame.md"
BLOCK = re.compile(r"<!-- output: examples/follow_one_frame\.py -->\n```text\n(.*?)```", re.DOTALL)
UPDATE = bool(os.environ.get("OMNI_VERIFY_UPDATE_DOCS"))
BOUND_S = 200


def follow(*arguments):
    run = subprocess.run(
        [sys.executable, "examples/follow_one_frame.py", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=BOUND_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_log_of_the_tutorial_is_real():
    output, page = follow(), PAGE.read_text()
    found = BLOCK.search(page)
    if UPDATE:
        page = page[: found.start(1)] + output + page[found.end(1) :]
        PAGE.write_text(page)
        found = BLOCK.search(page)
    assert found[1] == output


def test_the_lines_that_the_tutorial_explains_are_those_of_the_log():
    page = PAGE.read_text()
    explained = re.findall(r"^\d+\. \*\*`(.*?)`\.\*\*", page, re.MULTILINE)
    logged = [line.split(maxsplit=2)[2] for line in BLOCK.search(page)[1].splitlines()]
    assert explained == logged


def test_links_name_what_the_files_have():
    links = re.findall(r"\[`([^`]+)`\]\(([^)]+\.py)\)", PAGE.read_text())
    assert len(links) > 40
    for name, path in links:
        source = (PAGE.parent / path).read_text()
        if "/" in name:
            assert f'"{name}"' in source, f"{path} has no scenario {name}"
            continue
        for part in name.split("."):
            pattern = rf"^\s*(?:async )?(?:def|class) {re.escape(part)}\b|^{re.escape(part)}\b.*="
            assert re.search(pattern, source, re.MULTILINE), f"{path} defines no {part} (of {name})"


@pytest.mark.slow
def test_every_kind_of_frame_has_a_way():
    """A frame of the first chunk and one of the last: the latter never travels again."""
    first, last = follow("2").splitlines(), follow("78").splitlines()
    assert "R: 3 frames, none due" in first[0]
    assert "puts R_1_0" in first[2]
    assert "[0, 7125)" in first[7]
    assert "ChunkWindow(first=0, last=29, context=4)" in first[8]
    assert "ChunkWindow(first=29, last=79, context=25)" in last[0]
    assert "[103125, 151125)" in last[-1]
