"""The verdict on a soak: five cases, each from positive evidence, and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omni_verify.audit.series import Series, read_series
from omni_verify.campaign.soak import record as soak_record
from omni_verify.campaign.soak.record import Summary, leak_of, percentiles
from omni_verify.checks.trend.report import TrendReport
from omni_verify.checks.trend.settings import settings_from
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.verdict import Evidence, Finding, judge

if TYPE_CHECKING:
    from omni_verify.campaign.soak.load import Soak

__all__ = ["CASES", "PHASES", "conclude", "summary_of", "trend_of"]

CASES = ("soak/streams", "soak/residue", "soak/stages", "soak/trend", "soak/close")
"""What a soak judges: frames and ends of every request; what lies there at quiescent points; whether every
process and thread lived; whether memory and counts grow; what is left after the close."""
PHASES = ("warm-up", "load", "control", "idle", "trim")
"""Phases that a soak must have run for a verdict of held."""
_LEAST_POINTS = 4
_INVARIANTS = {
    "soak/streams": ("I12", "I13", "I14", "I28", "I30", "I36"),
    "soak/residue": ("I51", "I39", "I23"),
    "soak/stages": ("I37b",),
    "soak/trend": ("I51", "I52"),
    "soak/close": ("I53",),
}


def trend_of(soak: Soak) -> tuple[Series, TrendReport]:
    """Read the series of a soak and judge it."""
    series = read_series(soak.folder / soak_record.SERIES)
    return series, judge_trend(series, settings_from(soak.options.thresholds))


def conclude(soak: Soak, trend: TrendReport, left: Sequence[str]) -> list[CaseResult]:
    """Return the five cases.

    Args:
        soak: that has ended.
        trend: of its series.
        left: names that lay in shared memory after every part was closed.
    """
    by_signal = f"the soak was ended by {soak.interrupted}" if soak.interrupted else ""
    cut = soak.lost or soak.unwritable or by_signal
    phases = {p: p in soak.phases for p in PHASES}
    counts = soak.ledger.counts
    kinds = [f"request of kind {kind}" for kind in soak.mix.shares if not counts.kinds.get(kind)]
    struck = [f"strike of {name}" for name in soak.applicable() if not counts.strikes.get(name)]
    few = [] if len(soak.points) >= _LEAST_POINTS else [f"{_LEAST_POINTS} quiescent points"]
    cases = [
        _case("soak/streams", soak.ledger.streams.all(), phases, kinds, counts.judged, cut),
        _case("soak/residue", soak.residue.all(), phases, few, len(soak.points), cut),
        _case("soak/stages", soak.stages.all(), phases, struck, counts.started, cut),
        CaseResult(
            id="soak/trend",
            verdict=trend.verdict,
            reason=trend.reason,
            findings=list(trend.findings),
            invariants=_INVARIANTS["soak/trend"],
        ),
        _case("soak/close", _left(left, deaths=counts.deaths), {}, [], 1, soak.lost),
    ]
    cases[-1].residue = Residue(
        segments=tuple(n for n in left if not n.endswith(".lock") and not n.startswith("omni_shm_")),
        locks=tuple(n for n in left if n.endswith(".lock")),
        fifos=tuple(n for n in left if n.startswith("omni_shm_")),
    )
    return cases


def summary_of(soak: Soak, trend: TrendReport) -> Summary:
    """Put the figures of a soak together."""
    counts, points = soak.ledger.counts, tuple(soak.points)
    over = counts.completed + counts.aborted + counts.failed
    return Summary(
        target=soak.system.info,
        options=soak.options,
        counts=counts,
        elapsed_s=round(soak.elapsed_s, 1),
        rate=round(over / busy_s, 1) if (busy_s := soak.load_s + soak.drained_s) else 0.0,
        leak=leak_of(points),
        unread_per_abort=round(counts.unread / counts.aborted, 4) if counts.aborted else 0.0,
        latency={name: percentiles(h) for name, h in soak.ledger.total.items()},
        points=points,
        phases=tuple(soak.phases),
        trend=trend.sentences,
    )


def _case(
    name: str, findings: list[Finding], phases: dict[str, bool], missing: list[str], checked: int, cut: str
) -> CaseResult:
    evidence = Evidence(
        actors=tuple(f"phase {p}" for p in phases) or ("soak",),
        finished=tuple(f"phase {p}" for p, ran in phases.items() if ran) if phases else ("soak",),
        unreached=tuple(missing),
        checked=checked,
        cut=cut,
    )
    verdict, reason = judge(findings, evidence)
    return CaseResult(
        id=name,
        verdict=verdict,
        reason=reason,
        findings=findings,
        evidence=evidence,
        invariants=_INVARIANTS[name],
    )


def _left(names: Sequence[str], *, deaths: int) -> list[Finding]:
    """Judge what is left; a receiver that was killed leaves its FIFO, which its parent removes (I53)."""
    if deaths:
        names = [n for n in names if not n.startswith("omni_shm_wake_") or "/owner_" in n]
    if not names:
        return []
    return [
        Finding(
            invariant="I53",
            message="objects of the run outlive the close of every stage",
            expected="nothing of the run under /dev/shm after every connector was closed",
            found=f"{len(names)} objects",
            key="close",
            evidence={"names": list(names[:8])},
        )
    ]
