"""A fuzzing run and its coverage as text."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.campaign.coverage import Coverage, Gaps
from omni_verify.campaign.fuzz.fuzzing import SEED_STEP, FuzzFailure, FuzzReport
from omni_verify.report.exploration import WORDS, table
from omni_verify.report.story import target_text

__all__ = ["coverage_lines", "fuzz_lines", "fuzz_progress"]

_SHOWN = 12


def fuzz_progress(report: FuzzReport) -> str:
    """One line about a run that goes on."""
    return (
        f"{report.duration_s:.0f} s: {report.programs} programs, {report.runs} runs, "
        f"{len(report.failures)} distinct failures from {len(report.roots)} root causes"
    )


def fuzz_lines(report: FuzzReport, *, coverage: bool = False) -> list[str]:
    """Everything that one fuzzing run tells."""
    lines: list[str] = []
    by_key = {f.key: f for f in report.failures}
    for number, keys in enumerate(report.roots, 1):
        first = by_key[keys[0]]
        met, place = " and ".join(first.pair) or "-", f" in {first.where}" if first.where else ""
        lines += [f"root cause {number}: {met}{place}", ""]
        for n, key in enumerate(keys, 1):
            lines += [*_failure_lines(f"{number}.{n}", by_key[key]), ""]
    if coverage:
        lines += [*coverage_lines(report.coverage, report.gaps), ""]
    lines += _totals(report)
    if report.interrupted:
        lines.append(f"interrupted by {report.interrupted}; the results are partial")
    if report.reason and not report.failures:
        lines.append(report.reason)
    lines.append(f"verdict: {WORDS[report.verdict]}")
    return lines


def _totals(report: FuzzReport) -> list[str]:
    """What was run, what struck and how much was found."""
    identities = sum(1 + len(f.also) for f in report.failures)
    found = "no distinct failures"
    if report.failures:
        found = (
            f"{identities} identities in {len(report.failures)} failures from {len(report.roots)} root causes"
        )
    again = f", in {report.sessions} sessions" if report.sessions > 1 else ""
    struck = report.coverage.nemeses
    by_name = ", ".join(f"{name} {struck.get(name, 0)}" for name in report.nemeses)
    ran = f"{report.programs} programs, {report.runs} runs, {report.operations} operations"
    seeds = f"seed {report.seed}, program seeds from {report.seed * SEED_STEP}"
    return [
        f"{ran} in {report.duration_s:.1f} s{again} on {target_text(report.target)}",
        f"{seeds}; {report.shrink_runs} runs to shrink",
        f"nemeses allowed: {len(report.nemeses)}; runs struck: {by_name or 'none'}",
        found,
    ]


def _failure_lines(number: str, failure: FuzzFailure) -> list[str]:
    record = failure.record
    strikes = f"   strikes: {', '.join(failure.strikes)}" if failure.strikes else ""
    lines = [f"{number} {failure.identity}{strikes}"]
    lines += [f"   and {identity}" for identity in failure.also]
    lines.append(f"   program: {failure.program}")
    lines += [f"   expected {f.expected}; found {f.found}" for f in record.findings]
    lines += [f"   {line}" for line in record.detail.splitlines()[-6:]]
    lines += [f"   {line}" for line in table(record.story)]
    times = f"seen {record.count} times, replayed {record.reproduced} of {record.replays}"
    return [*lines, f"   {times}, {record.preemptions} preemptions", f"   {record.replay}"]


def coverage_lines(seen: Coverage, gaps: Gaps, *, limit: int = _SHOWN) -> list[str]:
    """What was covered, and the gaps."""
    counts = (
        f"{len(seen.points)} points, {len(seen.orders)} orders, {len(seen.concurrent)} pairs of concurrent "
        f"operations, {len(seen.invariants)} invariants judged"
    )
    lines = [f"coverage of {seen.runs} traces: {counts}"]
    for title, names in (
        ("operations never reached", gaps.operations),
        ("nemeses that never struck", gaps.nemeses),
        ("verbs never used", gaps.verbs),
        ("operations that never overlapped", gaps.concurrent),
        ("orders seen one way only, the other is", gaps.orders),
    ):
        if names:
            lines.append(f"  {title} ({len(names)}): {_some(names, limit)}")
    return lines


def _some(names: Sequence[str], limit: int) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
