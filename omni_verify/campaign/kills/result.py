"""A run of the kill matrix with its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

import omni_verify
from omni_verify.campaign.kills.matrix import Cell, Plan
from omni_verify.campaign.kills.program import kill_matrix
from omni_verify.errors import OmniVerifyError, TargetUnusableError
from omni_verify.verdict import Evidence, Finding, Verdict, judge

__all__ = ["KillResult", "judge_cells", "run_kills"]


def _tool() -> dict[str, str]:
    return {"name": "omni-verify", "version": omni_verify.__version__}


class KillResult(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a run: ``omni-verify/kills/1``.

    Attributes:
        tool: name and version of omni-verify.
        planned: cells that were to run, ``PHASE/VICTIM``.
        cells: those that ran to their end.
        findings: what was left or happened against the contract, by cell (I53).
        verdict, reason: held only if every planned cell ran and none has a problem.
        interrupted: signal that ended the run; empty otherwise.
        duration_s: wall time.
    """

    schema: str = "omni-verify/kills/1"
    tool: dict[str, str] = msgspec.field(default_factory=_tool)
    planned: tuple[str, ...]
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...] = ()
    verdict: Verdict
    reason: str = ""
    interrupted: str = ""
    duration_s: float


def run_kills(plan: Plan, emit: Callable[[Cell], None]) -> KillResult:
    """Run a plan and judge it; a run that cannot go on, or that is interrupted, is judged on what it had.

    Raises:
        TargetUnusableError: no private /dev/shm can be had here.
    """
    planned = tuple(f"{phase}/{victim}" for phase, victims in plan for victim in victims)
    cells: list[Cell] = []
    began, cut, interrupted = time.monotonic(), "", ""

    def take(cell: Cell) -> None:
        cells.append(cell)
        emit(cell)

    try:
        kill_matrix(plan, take)
    except TargetUnusableError:
        raise
    except OmniVerifyError as error:
        cut = str(error)
    except KeyboardInterrupt as stop:
        interrupted = str(stop) or "SIGINT"
        cut = f"ended by {interrupted}"
    return judge_cells(planned, cells, cut, interrupted, time.monotonic() - began)


def judge_cells(
    planned: Sequence[str], cells: Sequence[Cell], cut: str, interrupted: str, seconds: float
) -> KillResult:
    """Give the verdict on the cells that ran."""
    findings = tuple(
        Finding(invariant="I53", message=problem, key=f"{cell.phase}/{cell.victim}")
        for cell in cells
        for problem in cell.problems
    )
    finished = tuple(f"{cell.phase}/{cell.victim}" for cell in cells if cell.pids and cell.served)
    evidence = Evidence(actors=tuple(planned), finished=finished, checked=len(cells), cut=cut)
    verdict, reason = judge(findings, evidence)
    return KillResult(
        planned=tuple(planned),
        cells=tuple(cells),
        findings=findings,
        verdict=verdict,
        reason=reason,
        interrupted=interrupted,
        duration_s=seconds,
    )
