"""A soak while it runs: live figures on a terminal, plain lines elsewhere; and its end as text."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from omni_verify.campaign.soak.load import Progress
from omni_verify.campaign.soak.record import Summary
from omni_verify.checks.trend.report import TrendReport
from omni_verify.harness.result import CaseResult
from omni_verify.report.exploration import WORDS
from omni_verify.report.plain import plain
from omni_verify.report.story import target_text
from omni_verify.verdict import Verdict

__all__ = ["SoakProgress", "progress_line", "soak_lines"]

PLAIN_EVERY_S = 10.0
"""Seconds between two plain lines; twice the time after each, up to `PLAIN_MOST_S`, for soaks of days."""
PLAIN_MOST_S = 600.0
_TABLE_WIDTH = 72
"""Columns that the live table needs; with fewer the plain line is shown, wrapped."""
_MB = 1024.0 * 1024.0
_SHOWN, _LEAST = 8, 0.01
_SLOW = 0.8
_UNITS = (
    ("segments", "segments"),
    ("locks", "lock files"),
    ("bytes", "bytes"),
    ("entries", "container entries"),
)


class SoakProgress:
    """Shows the progress of a soak; use as a context manager, and give `tell` to the campaign.

    Args:
        console: where progress goes.
        quiet: show nothing.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        is_live = console.is_terminal and not console.is_dumb_terminal and "CI" not in os.environ
        self._live = (
            Live(console=console, auto_refresh=False, transient=True) if is_live and not quiet else None
        )
        self._due, self._gap, self._phase = 0.0, PLAIN_EVERY_S, ""

    def tell(self, progress: Progress) -> None:
        """Show the newest state."""
        if self._quiet:
            return
        if self._live is not None:
            is_narrow = self._console.width < _TABLE_WIDTH
            shown = Text(progress_line(progress)) if is_narrow else _table(progress)
            self._live.update(shown, refresh=True)
            return
        now = time.monotonic()
        if now >= self._due or progress.phase != self._phase:
            self._due, self._phase = now + self._gap, progress.phase
            self._gap = min(PLAIN_MOST_S, self._gap * 1.2)
            self._console.print(progress_line(progress), style="dim", markup=False)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def progress_line(progress: Progress) -> str:
    """One line about a soak that goes on."""
    sample, figures = progress.sample, progress.sample.figures
    rss = [f"{name.removesuffix('.rss')} {value / _MB:.1f}" for name, value in _resident(progress)]
    p99 = figures.get("latency.first_audio.p99")
    parts = [
        f"{_time(progress.elapsed_s)} {progress.phase} {progress.progress:.0%}",
        f"{sample.started:,} requests ({progress.rate:.0f}/s)",
        f"{sample.aborted:,} left, {sample.failed:,} failed",
        f"MiB: {', '.join(rss)}" if rss else "",
        f"segments {figures.get('shm.segments', 0):.0f}",
        f"first audio p99 {p99 * 1000:.0f} ms" if p99 else "",
        f"{progress.findings} findings" if progress.findings else "",
    ]
    return "; ".join(part for part in parts if part)


def soak_lines(
    cases: list[CaseResult], summary: Summary, trend: TrendReport, verdict: Verdict, interrupted: str
) -> list[str]:
    """Everything that a soak tells at its end."""
    counts = summary.counts
    head = (
        f"{counts.started:,} requests in {_time(summary.elapsed_s)} on {target_text(summary.target)} "
        f"({summary.rate:.0f}/s): {counts.completed:,} completed, {counts.aborted:,} left by their client, "
        f"{counts.failed:,} failed; mix {summary.options.mix}, seed {summary.options.seed}"
    )
    lines = [head]
    if summary.rate < _SLOW * (asked := summary.options.rate):
        lines.append(
            f"{asked:.9g} requests a second were asked for and not reached: the target, or what may be in "
            f"flight (--concurrency {summary.options.concurrency}), lets no more through"
        )
    lines += _latencies(summary)
    if counts.strikes:
        lines.append("strikes: " + ", ".join(f"{n} {c}" for n, c in sorted(counts.strikes.items())))
    if counts.deaths:
        lines.append(f"stages that ended: {counts.deaths}, started again: {counts.restarts}")
    lines.append(_rest(summary))
    for case in cases:
        lines += ["", f"{case.id}: {WORDS[case.verdict]}" + (f" - {case.reason}" if case.reason else "")]
        for finding in case.findings[:_SHOWN] if case.id != "soak/trend" else ():
            lines.append(f"  {finding.invariant} {finding.message}")
            lines.append(f"     expected {finding.expected}; found {finding.found}")
        if case.id == "soak/trend":
            lines += [f"  {j.sentence}" for j in trend.judgements if j.verdict is not Verdict.HELD][:_SHOWN]
    lines.append("")
    if interrupted:
        lines.append(f"ended by {interrupted}: the verdict is on what was measured until then")
    lines.append(f"verdict: {WORDS[verdict]}")
    return [plain(line) for line in lines]


def _rest(summary: Summary) -> str:
    points = summary.points
    if not points:
        return "no quiescent point was reached"
    grown = [
        f"each request{whose} adds " + ", ".join(texts)
        for whose, adds in (("", summary.leak.request), (" that was left", summary.leak.left))
        if (texts := [f"{adds[n]:.4g} {text}" for n, text in _UNITS if abs(adds.get(n, 0.0)) >= _LEAST])
    ]
    if grown:
        return (
            f"{len(points)} quiescent points: {'; '.join(grown)} "
            f"(the plan of one leaves {summary.unread_per_abort:.3g} chunks unread)"
        )
    dirty = sum(bool(p.segments or p.locks or p.entries) for p in points)
    return f"{len(points)} quiescent points: " + (
        f"{dirty} with residue" if dirty else "nothing was left at any"
    )


def _latencies(summary: Summary) -> list[str]:
    shown = []
    for name, values in summary.latency.items():
        if values:
            texts = [f"{p} {values[p] * 1000:.1f}" for p in ("p50", "p99", "p99.9")]
            shown.append(f"{name.replace('_', ' ')} {', '.join(texts)}")
    return [f"latency in ms: {'; '.join(shown)}"] if shown else []


def _table(progress: Progress) -> Table:
    sample, figures = progress.sample, progress.sample.figures
    table = Table(box=None, padding=(0, 2), title=None, show_header=False)
    for _ in range(4):
        table.add_column()
    table.add_row(
        f"[bold]{progress.phase}[/] {progress.progress:.0%}",
        _time(progress.elapsed_s),
        f"{sample.started:,} requests, {progress.rate:.0f}/s, {progress.flying} in flight",
        f"{sample.completed:,} completed, {sample.aborted:,} left, {sample.failed:,} failed",
    )
    for name, value in _resident(progress):
        part = name.removesuffix(".rss")
        heap = figures.get(f"{part}.heap_used")
        held = figures.get(f"{part}.containers")
        table.add_row(
            part,
            f"{value / _MB:.1f} MiB",
            f"heap {heap / _MB:.2f} MiB" if heap is not None else "",
            f"{held:.0f} entries, {figures.get(f'{part}.fds', 0):.0f} fds" if held is not None else "",
        )
    first = figures.get("latency.first_audio.p99")
    table.add_row(
        "shm",
        f"{figures.get('shm.segments', 0):.0f} segments",
        f"{figures.get('shm.bytes', 0):,.0f} bytes, oldest {figures.get('shm.oldest_s', 0):.1f} s",
        f"first audio p99 {first * 1000:.0f} ms" if first else "",
    )
    if progress.findings:
        table.add_row("", f"[bold red]{progress.findings} findings[/]", "", "")
    return table


def _resident(progress: Progress) -> list[tuple[str, float]]:
    names = [
        n for n in progress.sample.figures if n.endswith(".rss") and not n.startswith(("driver", "parent"))
    ]
    return [(name, progress.sample.figures[name]) for name in sorted(names)]


def _time(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
