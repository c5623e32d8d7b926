"""Expected against found over several releases, as a table of text."""

from __future__ import annotations

from omni_verify.campaign.matrix import MatrixResult
from omni_verify.verdict import Verdict

__all__ = ["matrix_lines"]

SHORT = {
    Verdict.HELD: "held",
    Verdict.VIOLATED: "violated",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_APPLICABLE: "n/a",
}


def matrix_lines(result: MatrixResult) -> list[str]:
    """One row a scenario and one column a target; ``!`` marks what is not as expected, with a list below."""
    names = [f"{run.target.name} {run.target.version}".strip() for run in result.runs]
    cells: dict[str, list[str]] = {}
    changes: list[str] = []
    for column, run in enumerate(result.runs):
        wrong = {problem.id for problem in run.gate or ()}
        for case in run.cases:
            row = cells.setdefault(case.id, [""] * len(names))
            row[column] = SHORT[case.verdict] + (" !" if case.id in wrong else "")
        changes += [
            f"{names[column]}: {problem.kind.replace('_', ' ')}: {problem.id}: {problem.message}"
            for problem in run.gate or ()
        ]
        if run.interrupted:
            changes.append(f"{names[column]}: interrupted by {run.interrupted}")
    first = max(map(len, ["scenario", *cells]))
    width = (
        [max(len(n), *(len(row[i]) for row in cells.values()), 0) for i, n in enumerate(names)]
        if cells
        else []
    )
    lines = [_row("scenario", names, first, width)]
    lines += [_row(case_id, cells[case_id], first, width) for case_id in sorted(cells)]
    return [*lines, "", *(changes or ["every release is violated exactly where it is expected to be"])]


def _row(head: str, cells: list[str], first: int, width: list[int]) -> str:
    return "  ".join([head.ljust(first), *(c.ljust(w) for c, w in zip(cells, width, strict=False))]).rstrip()
