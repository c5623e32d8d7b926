"""The result of one case, as it crosses the process border and as reports read it."""

from __future__ import annotations

import msgspec

from omni_verify.trace.event import Event
from omni_verify.verdict import Evidence, Finding, Verdict

__all__ = ["CaseResult", "Residue"]


class Residue(msgspec.Struct, frozen=True, kw_only=True):
    """What is left under /dev/shm: names without the run's prefix, sorted."""

    segments: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    fifos: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.segments or self.locks or self.fifos or self.owners)


class CaseResult(msgspec.Struct, kw_only=True):
    """One scenario against one target.

    Attributes:
        id: scenario id.
        verdict: the verdict.
        reason: why, in one line; empty when held.
        findings: broken contracts that decide the verdict.
        side_findings: broken contracts that other scenarios judge.
        evidence: what was positively shown.
        trace: events, in order.
        residue: what was left after everything was closed.
        replay: how to run exactly this case again.
        stacks: wait-for graph and all stacks when a wait ran out.
        log: the target's own warnings and errors during the case.
        duration_s: wall time.
    """

    id: str
    verdict: Verdict
    reason: str = ""
    findings: list[Finding] = []
    side_findings: list[Finding] = []
    evidence: Evidence = Evidence()
    trace: list[Event] = []
    residue: Residue = Residue()
    invariants: tuple[str, ...] = ()
    replay: str = ""
    stacks: str = ""
    log: list[str] = []
    duration_s: float = 0.0
