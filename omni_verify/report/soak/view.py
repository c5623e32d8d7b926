"""What a soak's report shows, as plain data: the same for HTML, SVG and Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.report import Fit, Judgement, TrendReport
from omni_verify.checks.trend.text import amount, number
from omni_verify.report.soak.thin import thin
from omni_verify.verdict import Finding, Verdict, combine

__all__ = ["Chart", "Line", "Section", "Span", "View", "soak_view"]

MOST_POINTS, MOST_DETAIL_POINTS = 600, 200
"""Points of a chart, more than one a pixel, and of a detail: a report of days stays near a megabyte."""

BYTES = ("rss", "uss", "pss", "heap", "heap_used", "heap_retained", "python_bytes", "bytes", "gpu_used")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of one phase, in seconds and in completed requests."""

    phase: str
    start: float
    end: float
    first: float
    last: float


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A fit as it is drawn.

    Attributes:
        name: what it says, with its bounds.
        phases: which samples it used.
        seconds, completed: of its blocks.
        dots: values of its blocks.
        middle, low, high: the line and its bounds there; `low` and `high` are empty when they are not finite.
    """

    name: str
    phases: tuple[str, ...]
    seconds: tuple[float, ...]
    completed: tuple[float, ...]
    dots: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the run.

    Attributes:
        name: ``<part>.<figure>``.
        unit: ``bytes``, ``seconds`` or ``count``.
        seconds, completed, values: equally long; None is a gap.
        lines: fits.
    """

    name: str
    unit: str
    seconds: tuple[float, ...]
    completed: tuple[float, ...]
    values: tuple[float | None, ...]
    lines: tuple[Line, ...] = ()


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Charts that belong together; figures that never change are told in words."""

    title: str
    charts: tuple[Chart, ...]
    constant: tuple[tuple[str, str], ...] = ()
    is_open: bool = True


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of a soak shows."""

    title: str
    verdict: Verdict
    reason: str
    facts: tuple[tuple[str, str], ...]
    judgements: tuple[Judgement, ...]
    findings: tuple[Finding, ...]
    spans: tuple[Span, ...]
    sections: tuple[Section, ...]


def soak_view(
    series: Series,
    trend: TrendReport,
    *,
    title: str = "soak",
    verdict: Verdict | None = None,
    findings: Sequence[Finding] = (),
    facts: Mapping[str, str] | None = None,
) -> View:
    """Lay out a soak.

    Args:
        series, trend: what was measured, and the judgement of it.
        title: target and command, for a reader.
        verdict: of the run as a whole; by default that of the trend and of `findings`.
        findings: of the run besides the trend's.
        facts: further facts, by name.
    """
    others = [finding for finding in findings if finding not in trend.findings]
    overall = verdict or combine([trend.verdict, *([Verdict.VIOLATED] if others else [])])
    return View(
        title=title,
        verdict=overall,
        reason=others[0].message if others and trend.verdict is not Verdict.VIOLATED else trend.reason,
        facts=(*_facts(series), *((name, str(value)) for name, value in (facts or {}).items())),
        judgements=trend.judgements,
        findings=(*trend.findings, *others),
        spans=tuple(_spans(series.samples)),
        sections=tuple(_sections(series, trend)),
    )


def unit_of(name: str) -> str:
    """Tell the unit of a figure by its name."""
    figure = name.rsplit(".", 1)[-1]
    if figure.endswith("_s") or (name.startswith("latency.") and figure != "count"):
        return "seconds"
    return "bytes" if figure in BYTES else "count"


def quantity(value: float, unit: str) -> str:
    """Write a value in its unit."""
    if unit == "seconds":
        return f"{number(value * 1000)} ms" if value < 1 else f"{number(value)} s"
    return amount(value, unit)


def _facts(series: Series) -> list[tuple[str, str]]:
    if not series.samples:
        return [("samples", "none")]
    first, last = series.samples[0], series.samples[-1]
    length = last.seconds - first.seconds
    ended = last.completed + last.aborted
    return [
        ("length", f"{length / 3600:.1f} h" if length >= 7200 else f"{length / 60:.1f} min"),
        ("completed", f"{last.completed:,}"),
        ("aborted", f"{last.aborted:,}"),
        ("failed", f"{last.failed:,}"),
        ("rate", f"{number(ended / length)} a second" if length > 0 else "unknown"),
        ("samples", f"{len(series.samples):,}"),
        *([("last line", "torn: the writer was killed")] if series.is_torn else []),
    ]


def _spans(samples: Sequence[Sample]) -> list[Span]:
    spans: list[Span] = []
    for sample in samples:
        if spans and spans[-1].phase == sample.phase:
            spans[-1] = msgspec.structs.replace(spans[-1], end=sample.seconds, last=float(sample.completed))
            continue
        start = spans[-1].end if spans else sample.seconds
        first = spans[-1].last if spans else float(sample.completed)
        spans.append(
            Span(
                phase=sample.phase,
                start=start,
                end=sample.seconds,
                first=first,
                last=float(sample.completed),
            )
        )
    return spans


def _sections(series: Series, trend: TrendReport) -> list[Section]:
    groups: dict[str, list[str]] = {}
    for name in series.names():
        part, _, figure = name.partition(".")
        is_detail = figure.split(".", 1)[0] in ("size", "container")
        groups.setdefault(f"{part}, containers" if is_detail else part, []).append(name)
    sections = []
    for title, names in sorted(groups.items(), key=lambda item: (_place(item[0]), item[0])):
        charts, constant = [], []
        for name in sorted(names, key=_rank):
            chart = _chart(series, name, trend.fits)
            seen = {value for value in chart.values if value is not None}
            if len(seen) > 1:
                charts.append(chart)
            else:
                constant.append((name, quantity(next(iter(seen), 0.0), chart.unit)))
        is_open = bool(charts) and _place(title) < 2
        sections.append(Section(title=title, charts=tuple(charts), constant=tuple(constant), is_open=is_open))
    return sections


def _place(title: str) -> int:
    """Order of the parts: what is judged first, details last."""
    if "containers" in title:
        return 4
    return {"shm": 1, "latency": 2, "driver": 3}.get(title, 0 if title.startswith("stage") else 1)


def _rank(name: str) -> tuple[int, str]:
    figure = name.rsplit(".", 1)[-1]
    return (BYTES.index(figure) if figure in BYTES else len(BYTES), name)


def _chart(series: Series, name: str, fits: Sequence[Fit]) -> Chart:
    values = [sample.figures.get(name) for sample in series.samples]
    is_detail = name.partition(".")[2].split(".", 1)[0] in ("size", "container")
    kept = thin(values, MOST_DETAIL_POINTS if is_detail else MOST_POINTS)
    samples = [series.samples[i] for i in kept]
    own = [fit for fit in fits if fit.figure == name and not fit.lack]
    # the contrast tells most; else what was charged to the aborts; else all growth for each request
    own.sort(key=lambda fit: (fit.per != "aborted", -len(fit.phases)))
    return Chart(
        name=name,
        unit=unit_of(name),
        seconds=tuple(round(s.seconds, 3) for s in samples),
        completed=tuple(float(s.completed) for s in samples),
        values=tuple(values[i] for i in kept),
        lines=tuple(_line(fit) for fit in own[:1]),
    )


def _line(fit: Fit) -> Line:
    middle, low, high = (_along(fit, slope) for slope in (fit.slope, fit.lower, fit.upper))
    is_bounded = math.isfinite(fit.lower) and math.isfinite(fit.upper)
    unit = unit_of(fit.figure)
    per = "an abort" if fit.per == "aborted" else "a request"
    name = f"{quantity(fit.slope, unit)} {per}"
    if is_bounded:
        name += f" ({quantity(fit.lower, unit)} to {quantity(fit.upper, unit)})"
    if fit.per == "aborted" and len(fit.phases) > 1:
        name += f", {quantity(fit.beside, unit)} a request"
    return Line(
        name=name,
        phases=fit.phases,
        seconds=tuple(round(b.seconds, 3) for b in fit.blocks),
        completed=tuple(b.completed for b in fit.blocks),
        dots=tuple(b.value for b in fit.blocks),
        middle=middle,
        low=low if is_bounded else (),
        high=high if is_bounded else (),
    )


def _along(fit: Fit, slope: float) -> tuple[float, ...]:
    """Values of the fit at its blocks, through their medians."""
    grown = [slope * b.count + fit.beside * b.completed for b in fit.blocks]
    level = statistics.median(b.value - fit.slope * b.count - fit.beside * b.completed for b in fit.blocks)
    pivot = statistics.median(b.count for b in fit.blocks)
    return tuple(level + value + (fit.slope - slope) * pivot for value in grown)
