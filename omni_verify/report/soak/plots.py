"""Static plots of a soak as SVG, for Markdown: the figures that decide, with their phases and fits."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from omni_verify.errors import TargetUnusableError
from omni_verify.report.plain import plain
from omni_verify.report.soak.view import Chart, View

__all__ = ["soak_svg"]

_SHADES = {"warm-up": "#fff3d6", "control": "#e6f1ff", "idle": "#eeeff2", "trim": "#dff3e6"}
_FITS = ("#c2410c", "#047857", "#7e22ce")
_SCALES = {"bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")), "seconds": ((1.0, "s"), (1e-3, "ms"))}
MOST_PANELS = 8


def soak_svg(view: View) -> str:
    """Draw a soak; the same view gives the same bytes.

    Raises:
        TargetUnusableError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise TargetUnusableError("static plots need matplotlib: pip install 'omni-verify[soak]'.") from None
    charts = list(_chosen(view))
    style: Any = {
        "svg.hashsalt": "omni-verify",  # else every drawing has ids of its own
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 8.5,
        "axes.edgecolor": "#98a2b0",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.parse_math": False,  # a name with dollars is a name
    }
    rows = max(1, (len(charts) + 1) // 2)
    with mpl.rc_context(style):
        figure = Figure(figsize=(9.6, 0.5 + 2.1 * rows), layout="constrained")
        figure.suptitle(plain(f"{view.title}: {view.verdict.value}"), fontsize=10.5)
        for number, chart in enumerate(charts):
            _draw(figure.add_subplot(rows, 2, number + 1), chart, view)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "omni-verify"})
    return out.getvalue()


def _chosen(view: View) -> Iterator[Chart]:
    """Yield what fits on a page: charts with a fit first, then those that vary."""
    charts = [chart for section in view.sections if section.is_open for chart in section.charts]
    charts.sort(key=lambda chart: not chart.lines)
    yield from charts[:MOST_PANELS]


def _draw(axes: Any, chart: Chart, view: View) -> None:
    values = [v for v in chart.values if v is not None]
    size, unit = _scale(values, chart.unit)
    minutes = _minutes(view)
    for span in view.spans:
        if span.phase in _SHADES:
            axes.axvspan(span.start / minutes, span.end / minutes, color=_SHADES[span.phase], linewidth=0)
    known = [(s, v) for s, v in zip(chart.seconds, chart.values, strict=True) if v is not None]
    axes.plot([s / minutes for s, _ in known], [v / size for _, v in known], color="#2563c9", linewidth=0.9)
    for number, line in enumerate(chart.lines):
        colour = _FITS[number % len(_FITS)]
        x = [s / minutes for s in line.seconds]
        middle, lows, highs = ([v / size for v in side] for side in (line.middle, line.low, line.high))
        label = plain(f"{' and '.join(line.phases)}: {line.name}")
        axes.plot(x, middle, color=colour, linestyle="--", linewidth=1.2, label=label)
        if lows:
            axes.fill_between(x, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, [v / size for v in line.dots], "o", color=colour, markersize=2)
    low, high = min(values) / size, max(values) / size
    pad = (high - low) * 0.06 or max(abs(high) * 0.001, 1e-9)
    axes.set_ylim(low - pad, high + pad)
    axes.margins(x=0)
    axes.set_title(plain(chart.name), loc="left", fontsize=9, family="monospace")
    axes.set_ylabel(unit)
    axes.set_xlabel("s" if minutes == 1 else "min" if minutes == 60 else "h", loc="right", labelpad=1)
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(axis="y", color="#e9ecf0", linewidth=0.6)
    if chart.lines:
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.22), borderaxespad=0)


def _scale(values: Sequence[float], unit: str) -> tuple[float, str]:
    top = max(abs(v) for v in values)
    for size, name in _SCALES.get(unit, ()):
        if top >= size:
            return size, name
    return 1.0, {"bytes": "B", "seconds": "s"}.get(unit, "")


def _minutes(view: View) -> float:
    """Seconds in the unit of the time axis."""
    length = view.spans[-1].end if view.spans else 0.0
    return 1.0 if length < 300 else 60.0 if length < 4 * 3600 else 3600.0
