"""The result of a run, and its published JSON form ``omni-verify/run/1``.

Fields may be added to the form; a field is never renamed, removed or given another meaning within
one version.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import msgspec

import omni_verify
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Finding, Verdict, combine

__all__ = ["CaseRecord", "GateProblem", "OrderRecord", "RunResult", "json_schema", "record_of", "run_verdict"]


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which omni-verify made the file."""

    name: str = "omni-verify"
    version: str = omni_verify.__version__


class OrderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The partial order that a case declared, and whether its trace shows all of it."""

    declared: tuple[str, ...] = ()
    observed: bool = False
    unobserved: tuple[str, ...] = ()


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario of the run.

    Attributes:
        id: scenario id.
        verdict: what the run showed.
        expected: what the known failures say; null without a file of known failures.
        invariants: ids that the scenario judges.
        order: declared order, and whether it was observed.
        findings: broken contracts that decide the verdict.
        replay: command that runs exactly this case again.
        duration_s: wall time in seconds.
        reason: why the verdict is what it is, one line; empty when held.
        known: reason and link of the known failure that applies; empty if none.
        side_findings: broken contracts that other scenarios judge.
        residue: what this case left before the harness swept it.
    """

    id: str
    verdict: Verdict
    expected: Verdict | None
    invariants: tuple[str, ...]
    order: OrderRecord
    findings: tuple[Finding, ...]
    replay: str
    duration_s: float
    reason: str = ""
    known: str = ""
    side_findings: tuple[Finding, ...] = ()
    residue: Residue = Residue()


class GateProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a run and its known failures disagree.

    Attributes:
        kind: ``unexpected_violation``, ``unexpected_pass``, ``inconclusive``, ``stale`` or ``expired``.
        id: scenario id, or the glob of the entry.
        message: what to do about it.
    """

    kind: Literal["unexpected_violation", "unexpected_pass", "inconclusive", "stale", "expired"]
    id: str
    message: str


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a campaign command.

    Attributes:
        schema: name and version of this form.
        verdict: violated > inconclusive > held over the cases that apply.
        started: UTC, ISO 8601.
        duration_s: wall time in seconds, loading included.
        residue: union of what the cases left before the harness swept it.
        isolation: ``"mount"`` or ``"prefix"``.
        interrupted: name of the signal that cut the run short; empty otherwise.
        gate: null without known failures, else what disagrees with them; empty when all agrees.
    """

    schema: Literal["omni-verify/run/1"] = "omni-verify/run/1"
    command: str
    tool: ToolRecord = ToolRecord()
    target: TargetInfo
    verdict: Verdict
    started: str
    duration_s: float
    cases: tuple[CaseRecord, ...]
    residue: Residue = Residue()
    isolation: str = "mount"
    interrupted: str = ""
    gate: tuple[GateProblem, ...] | None = None

    def count(self, verdict: Verdict) -> int:
        """How many cases have that verdict."""
        return sum(case.verdict is verdict for case in self.cases)


def record_of(case: CaseResult, expected: Verdict | None = None, known: str = "") -> CaseRecord:
    """Build the record of one case."""
    evidence = case.evidence
    return CaseRecord(
        id=case.id,
        verdict=case.verdict,
        expected=expected,
        invariants=case.invariants,
        order=OrderRecord(
            declared=evidence.orders,
            observed=bool(evidence.orders) and not evidence.unobserved,
            unobserved=evidence.unobserved,
        ),
        findings=tuple(case.findings),
        replay=case.replay,
        duration_s=round(case.duration_s, 4),
        reason=case.reason,
        known=known,
        side_findings=tuple(case.side_findings),
        residue=case.residue,
    )


def run_verdict(cases: list[CaseResult], *, complete: bool) -> Verdict:
    """Verdict of the run; a run that was cut short is never better than inconclusive."""
    verdicts = [case.verdict for case in cases]
    return combine(verdicts if complete else [*verdicts, Verdict.INCONCLUSIVE])


def union(residues: list[Residue]) -> Residue:
    """Join residues, names sorted and unique."""
    return Residue(
        **{f: tuple(sorted({n for r in residues for n in getattr(r, f)})) for f in Residue.__struct_fields__}
    )


def utc_now() -> str:
    """Now, as the files write it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def json_schema() -> dict[str, Any]:
    """JSON schema (2020-12) of ``omni-verify/run/1``."""
    schema = msgspec.json.schema(RunResult, schema_hook=lambda kind: {"description": "any JSON value"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "omni-verify/run/1", **schema}
