"""Discrete figures are judged exactly, at quiescent points: no statistics are needed to count a segment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from omni_verify.audit.series import Sample
from omni_verify.checks.trend.report import Judgement, concluded
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.text import number

__all__ = ["judge_empty", "judge_steady", "judge_struck"]

_APART = 100.0
"""Condition of the two counts up to which aborts and completed requests are told apart."""


def judge_empty(samples: Sequence[Sample], figure: str, settings: TrendSettings) -> Judgement:
    """Judge a figure that is zero whenever no request is live (I51)."""
    quiet = _quiet(samples, figure)
    wrong = [s for s in quiet if s.figures[figure] != 0]
    rate, said = _rate(quiet, figure)
    gap, sentence = "", f"{figure} is 0 at all {len(quiet)} quiescent points"
    if wrong:
        most = max(s.figures[figure] for s in quiet)
        sentence = (
            f"{figure} is not 0 at {len(wrong)} of {len(quiet)} quiescent points: up to {number(most)}, "
            f"first after {wrong[0].completed:,} completed and {wrong[0].aborted:,} aborted requests; "
            f"it gains {said}"
        )
    elif len(quiet) < settings.quiescent_points:
        gap = sentence = _too_few(figure, quiet, settings)
    return concluded(
        figure,
        "empty",
        sentence,
        is_broken=bool(wrong),
        gap=gap,
        checked=len(quiet),
        estimate=rate,
        lower=rate,
        upper=rate,
        unit="count",
    )


def judge_struck(samples: Sequence[Sample], figure: str, settings: TrendSettings) -> Judgement:
    """Judge a figure of `judge_empty` in a run with nemeses: a strike may leave something for a while (I51).

    What a strike excuses, only the run itself knows, and it judges that point by point; here it must be zero
    again in the last quarter, and must not have grown from quarter to quarter.
    """
    quiet = _quiet(samples, figure)
    held = judge_empty(samples, figure, settings)
    if not any(s.figures[figure] for s in quiet) or len(quiet) < settings.quiescent_points:
        return held
    low = _quarters([s.figures[figure] for s in quiet])
    levels = ", ".join(number(v) for v in low)
    count = sum(s.figures[figure] != 0 for s in quiet)
    came_back = f"{figure} was not 0 at {count} of {len(quiet)} quiescent points of a run with nemeses"
    return concluded(
        figure,
        "empty",
        f"{came_back} (lowest of each quarter: {levels})",
        is_broken=low[3] > 0,
        checked=len(quiet),
        unit="count",
    )


def judge_steady(samples: Sequence[Sample], figure: str, settings: TrendSettings) -> Judgement:
    """Judge a figure that may be anything at rest, and must not grow (I52).

    The quiescent points are cut in four; it grows when the lowest value of each quarter is above that of
    the quarter before. A pool that fills once is no growth; one that rose in the last quarter is undecided.
    """
    quiet = _quiet(samples, figure)
    if len(quiet) < settings.quiescent_points:
        gap = _too_few(figure, quiet, settings)
        return concluded(figure, "steady", gap, gap=gap, checked=len(quiet), unit="count")
    low = _quarters([s.figures[figure] for s in quiet])
    levels = ", ".join(number(v) for v in low)
    grows = all(later > earlier for earlier, later in pairwise(low))
    rate, said = _rate(quiet, figure)
    gap = ""
    if grows:
        sentence = f"{figure} grows through all quarters of the run (lowest {levels}): {said}"
    elif low[3] > max(low[:3]):
        gap = sentence = f"{figure} rose in the last quarter only (lowest {levels}); a longer run would tell"
    elif low[3] > low[0]:
        sentence = f"{figure} rose once and stayed there (lowest of each quarter: {levels})"
    else:
        sentence = f"{figure} does not grow (lowest of each quarter of {len(quiet)} points: {levels})"
    return concluded(
        figure,
        "steady",
        sentence,
        is_broken=grows,
        gap=gap,
        checked=len(quiet),
        estimate=rate,
        lower=rate,
        upper=rate,
        unit="count",
    )


def _quiet(samples: Sequence[Sample], figure: str) -> list[Sample]:
    return [s for s in samples if s.quiescent and figure in s.figures]


def _quarters(values: list[float]) -> list[float]:
    edges = [len(values) * i // 4 for i in range(5)]
    return [min(values[a:b]) for a, b in pairwise(edges)]


def _rate(quiet: Sequence[Sample], figure: str) -> tuple[float, str]:
    """What one abort adds (one request, if none was aborted), and what each adds in words.

    Where the phases tell them apart, both are from one least-squares fit; else all of the gain is charged to
    the aborts.
    """
    if len(quiet) < 2:
        return 0.0, "nothing that could be told"
    gained = quiet[-1].figures[figure] - quiet[0].figures[figure]
    aborted = quiet[-1].aborted - quiet[0].aborted
    if aborted <= 0:
        rate = gained / max(1, quiet[-1].completed - quiet[0].completed)
        return rate, f"{number(rate)} a request"
    counts = np.array([[s.aborted, s.completed] for s in quiet], dtype=np.float64)
    values = np.array([s.figures[figure] for s in quiet], dtype=np.float64)
    counts -= counts.mean(axis=0)
    spread = np.linalg.norm(counts, axis=0)
    if len(quiet) > 3 and spread.all() and np.linalg.cond(counts / spread) < _APART:
        (each, request), *_ = np.linalg.lstsq(counts, values - values.mean(), rcond=None)
        return float(each), f"{number(float(each))} an abort and {number(float(request))} a request"
    return gained / aborted, f"{number(gained / aborted)} an abort, if nothing is the requests'"


def _too_few(figure: str, quiet: Sequence[Sample], settings: TrendSettings) -> str:
    return f"{figure} was seen at {len(quiet)} quiescent points, {settings.quiescent_points} are needed"
