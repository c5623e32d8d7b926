"""Whatever process of the reference pipeline is killed when: what is left is allowed, and found (I53)."""

import os
import subprocess
import sys

import msgspec
import pytest

from omni_verify.audit import namespace
from omni_verify.campaign.kills.matrix import FULL, PHASES, VICTIMS
from omni_verify.campaign.kills.patterns import allowance
from omni_verify.campaign.kills.program import kill_matrix
from omni_verify.campaign.kills.result import KillResult

needs_namespace = pytest.mark.skipif(
    namespace.available() is not None, reason="no private /dev/shm here: see omni-verify doctor"
)


def judged(cells):
    """Every cell held its contract, and something was served after it."""
    assert {f"{c.phase}/{c.victim}": c.problems for c in cells if c.problems} == {}
    assert all(cell.served and cell.pids for cell in cells)
    return {(cell.phase, cell.victim): cell for cell in cells}


@needs_namespace
def test_a_killed_stage_and_then_everybody_in_the_middle_of_a_stream():
    command = [sys.executable, "-m", "omni_verify", "kills", "quick", "--json", "-"]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    cells = judged(msgspec.json.decode(done.stdout, type=KillResult).cells)
    assert len(cells) == 2
    left = [line.split()[:2] for line in cells["mid-stream", "all"].left]
    kinds = {kind for _, kind in left}
    assert kinds == {"segment", "lock", "fifo", "owner", "wake"}, "an unread chunk was to be left"
    assert {judgement for judgement, _ in left} == {"orphan"}
    assert cells["mid-stream", "all"].removed == len(left)


@needs_namespace
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_process_at_every_phase():
    cells = judged(kill_matrix(FULL))
    assert set(cells) == {(p, v) for p in PHASES for v in VICTIMS[:-1]} | {("mid-stream", "all")}
    for (phase, victim), cell in cells.items():
        is_end = phase == "shutdown" or victim in ("parent", "all")
        if is_end and victim != "all":
            assert not any(line.split()[1] in ("segment", "lock") for line in cell.left)


def test_every_combination_has_its_allowance():
    for victim in VICTIMS:
        assert allowance(victim, ended=True).reason
        if victim not in ("parent", "all"):
            assert allowance(victim, ended=False).reason
