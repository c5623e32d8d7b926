"""A run of the kill matrix as lines: one a cell, then the problems and the verdict."""

from __future__ import annotations

from collections import Counter

from omni_verify.campaign.kills.matrix import Cell
from omni_verify.campaign.kills.result import KillResult
from omni_verify.report.exploration import WORDS
from omni_verify.verdict import Verdict

__all__ = ["cell_line", "kill_lines"]


def cell_line(cell: Cell) -> str:
    """One cell in one line: what was killed when, what was left, and what became of it."""
    word = WORDS[Verdict.VIOLATED] if cell.problems else "held"
    kinds = Counter(" ".join(line.split()[:2]) for line in cell.left)
    left = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())) or "nothing"
    removed = f"; {cell.removed} removed" if cell.removed else ""
    next_one = "; the next request was served" if cell.served else ""
    return (
        f"{cell.phase:<12} {cell.victim:<8} {word:<9} {cell.seconds:5.1f} s  left: {left}{removed}{next_one}"
    )


def kill_lines(result: KillResult) -> list[str]:
    """Problems by cell, why the run was cut off, the counts and the verdict."""
    lines = [f"{finding.key}: {finding.invariant} {finding.message}" for finding in result.findings]
    if result.verdict is Verdict.INCONCLUSIVE:
        lines.append(result.reason)
    bad = len({finding.key for finding in result.findings})
    lines.append(
        f"{len(result.cells)} of {len(result.planned)} cells in {result.duration_s:.0f} s: "
        f"{len(result.cells) - bad} held, {bad} violated"
    )
    if result.interrupted:
        lines.append(f"ended by {result.interrupted}: the verdict is on what was seen until then")
    return [*lines, f"verdict: {WORDS[result.verdict]}"]
