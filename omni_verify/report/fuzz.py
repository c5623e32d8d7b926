"""A fuzzing run and its coverage as text."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.campaign.coverage import Coverage, Gaps
from omni_verify.campaign.fuzzing import FuzzFailure, FuzzReport
from omni_verify.report.exploration import WORDS, table
from omni_verify.report.story import target_text

__all__ = ["coverage_lines", "fuzz_lines", "fuzz_progress"]

_SHOWN = 12


def fuzz_progress(report: FuzzReport) -> str:
    """One line about a run that goes on."""
    return (
        f"{report.duration_s:.0f} s: {report.programs} programs, {report.runs} runs, "
        f"{len(report.failures)} distinct failures"
    )


def fuzz_lines(report: FuzzReport, *, coverage: bool = False) -> list[str]:
    """Everything that one fuzzing run tells."""
    lines: list[str] = []
    for number, failure in enumerate(report.failures, 1):
        lines += [*_failure_lines(number, failure), ""]
    if coverage:
        lines += [*coverage_lines(report.coverage, report.gaps), ""]
    lines.append(
        f"{report.programs} programs, {report.runs} runs in {report.duration_s:.1f} s on "
        f"{target_text(report.target)}, seed {report.seed}: {len(report.failures) or 'no'} distinct failures"
    )
    strikes = sum(report.coverage.nemeses.values())
    lines.append(f"nemeses: {len(report.nemeses)} allowed, {strikes} runs struck")
    if report.interrupted:
        lines.append(f"interrupted by {report.interrupted}; the results are partial")
    if report.reason and not report.failures:
        lines.append(report.reason)
    lines.append(f"verdict: {WORDS[report.verdict]}")
    return lines


def _failure_lines(number: int, failure: FuzzFailure) -> list[str]:
    record = failure.record
    strikes = f"   strikes: {', '.join(failure.strikes)}" if failure.strikes else ""
    lines = [f"{number}. {failure.identity}{strikes}", f"   program: {failure.program}"]
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
