"""From a series to the points of a fit: which samples, and which of them may be compared."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.contrast import contrast
from omni_verify.checks.trend.fit import fit
from omni_verify.checks.trend.report import Fit
from omni_verify.checks.trend.series import Points
from omni_verify.checks.trend.settings import TrendSettings

__all__ = ["COUNTED", "contrast_figure", "fit_figure", "measured"]

COUNTED = ("load", "control")
"""Phases in which requests run; only they can show what a request costs."""


def measured(series: Series, settings: TrendSettings) -> tuple[Sample, ...]:
    """Return the samples behind the phase ``warm-up``, or without one, behind the first requests."""
    if any(sample.phase == "warm-up" for sample in series.samples):
        return tuple(sample for sample in series.samples if sample.phase != "warm-up")
    first = series.samples[0] if series.samples else Sample(seconds=0.0, phase="load")
    start = first.completed + first.aborted + settings.warm_up_requests
    return tuple(sample for sample in series.samples if sample.completed + sample.aborted >= start)


def fit_figure(
    samples: tuple[Sample, ...], settings: TrendSettings, *, figure: str, per: str, phases: tuple[str, ...]
) -> Fit:
    """Fit a line to a figure over phases, on quiescent samples where they suffice: live requests are noise.

    Args:
        samples: as `measured` gives them.
        figure: ``<part>.<figure>``.
        per: ``completed`` or ``aborted``.
        phases: whose samples are used; what grew in another phase between them counts too.
    """
    empty = Fit(figure=figure, per=per, phases=phases)
    tried = [
        fit(points, settings, empty, least)
        for points, least in _both(samples, settings, figure, per, phases)
        if len(points.value)
    ]
    return min(tried, key=lambda f: 2 * bool(f.lack) + f.is_rough, default=_absent(empty))


def contrast_figure(samples: tuple[Sample, ...], settings: TrendSettings, *, figure: str) -> tuple[Fit, Fit]:
    """Contrast load with control: what an abort adds to a figure, and what a completed request does."""
    empty = Fit(figure=figure, per="aborted", phases=COUNTED)
    tried = [
        contrast(points, settings, empty, least)
        for points, least in _both(samples, settings, figure, "aborted", COUNTED)
        if len(points.value)
    ]
    lack = _absent(empty)
    other = msgspec.structs.replace(lack, per="completed")
    return min(tried, key=lambda pair: bool(pair[0].lack), default=(lack, other))


def _absent(empty: Fit) -> Fit:
    return msgspec.structs.replace(empty, lack=f"no sample in {' and '.join(empty.phases)}")


def _both(
    samples: tuple[Sample, ...], settings: TrendSettings, figure: str, per: str, phases: tuple[str, ...]
) -> Iterator[tuple[Points, int]]:
    """Yield the quiescent points, then all, each with how many are needed: noise asks for more."""
    chosen = list(_chosen(samples, figure, phases, settings.warm_up_requests))
    quiet = [row for row in chosen if row[0].quiescent]
    for rows, least in ((quiet, settings.minimum_blocks), (chosen, settings.minimum_samples)):
        yield (
            Points(
                seconds=np.array([sample.seconds for sample, _ in rows], dtype=np.float64),
                count=np.array([getattr(sample, per) for sample, _ in rows], dtype=np.float64),
                completed=np.array([sample.completed for sample, _ in rows], dtype=np.float64),
                value=np.array([sample.figures[figure] for sample, _ in rows], dtype=np.float64),
                segment=np.array([segment for _, segment in rows], dtype=np.int64),
            ),
            least,
        )


def _chosen(
    samples: tuple[Sample, ...], figure: str, phases: tuple[str, ...], warm_up: int
) -> Iterator[tuple[Sample, int]]:
    """Yield the samples of the phases, each with the number of its segment.

    A trim lowers the level and a restarted process starts at another, with a warm-up of its own: no pair
    across either says what a request costs.
    """
    identity = f"{figure.split('.', 1)[0]}.pid"
    segment, is_fresh, is_away, warm_at = 0, False, False, 0
    pid: float | None = None
    for sample in samples:
        now = sample.figures.get(identity)
        # a process that was not there before it was seen first has started late, and not in the warm-up
        if now is not None and now != pid and (pid is not None or is_away):
            is_fresh, warm_at = True, sample.completed + sample.aborted + warm_up
        pid, is_away = (now, False) if now is not None else (pid, True)
        if sample.phase not in phases:
            is_fresh |= sample.phase == "trim"
            continue
        if figure not in sample.figures or sample.completed + sample.aborted < warm_at:
            continue
        segment += is_fresh
        is_fresh = False
        yield sample, segment
