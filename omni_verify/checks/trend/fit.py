"""A slope with honest bounds from a correlated series: warm-up cut, correlation time, blocks, Theil-Sen.

Samples of memory are correlated for minutes, and a slope test that takes them as independent calls 64 % of
flat series a trend (AR(1), coefficient 0.9, 600 samples). So the samples are averaged in blocks of at least
two correlation times, and the variance of the rank statistic is raised by the correlation that is left
between blocks (Hamed and Rao's formula, with the correlation of an AR(1) process of that correlation time).
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from omni_verify.checks.trend.correlation import correlation_time, left_correlation
from omni_verify.checks.trend.report import Block, Fit
from omni_verify.checks.trend.series import Array, Numbers, Points, detrend
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.slope import theil_sen

__all__ = ["blocks_of", "fit", "warm_up_cut"]

_COARSE = 40
"""Groups among which the end of the warm-up is searched."""


def fit(points: Points, settings: TrendSettings, empty: Fit, least: int) -> Fit:
    """Fit a line; a series that cannot carry one gives a `Fit` whose `lack` says why.

    Args:
        points: of the figure.
        settings: thresholds.
        empty: what the fit is of.
        least: fewest samples.
    """
    total, per = len(points.value), empty.per
    if total < least:
        return msgspec.structs.replace(empty, lack=f"{total} samples, {least} are needed for a fit")
    if points.count[-1] <= points.count[0]:
        return msgspec.structs.replace(empty, lack=f"no request was {per} in these phases")
    # behind a restart the caller has cut already, and levels of two processes would look like a bend
    cut = warm_up_cut(points, settings) if len(points.pieces()) == 1 else 0
    points = points.at(slice(cut, None))
    tau = correlation_time(points)
    length = max(
        math.ceil(settings.block_correlations * tau),
        math.ceil(len(points.value) / settings.maximum_blocks),
        1,
    )
    blocks, segment = blocks_of(points, length, settings)
    known = msgspec.structs.replace(
        empty, correlation=tau, cut=cut, blocks=tuple(blocks), samples=total - cut
    )
    if len(blocks) < settings.minimum_blocks:
        return _rough(points, known, settings)
    count = np.array([b.count for b in blocks])
    value = np.array([b.value for b in blocks])
    left = left_correlation(count, value, segment, length / tau if tau else math.inf)
    slope, lower, upper = theil_sen(count, value, segment, settings.confidence, left)
    late = np.arange(len(blocks)) >= len(blocks) // 2
    return msgspec.structs.replace(
        known,
        slope=slope,
        lower=lower,
        upper=upper,
        late=theil_sen(count[late], value[late], segment[late], settings.confidence)[0],
    )


def _rough(points: Points, known: Fit, settings: TrendSettings) -> Fit:
    """Bound the slope by extremes, for a series whose every value hangs on the one before."""
    few = (
        f"{len(known.blocks)} independent blocks (correlation time {known.correlation:.0f} samples), "
        f"{settings.minimum_blocks} are needed"
    )
    longest = max(points.pieces(), key=lambda piece: points.count[piece[-1]] - points.count[piece[0]])
    points = points.at(longest)
    third = len(points.value) // 3
    first, last = slice(0, third), slice(-third, None)
    apart = float(points.count[last].mean() - points.count[first].mean())
    if third < settings.minimum_blocks // 3 or apart <= 0:
        return msgspec.structs.replace(known, blocks=(), lack=few)
    early, late = points.value[first], points.value[last]
    return msgspec.structs.replace(
        known,
        slope=float(np.median(late) - np.median(early)) / apart,
        lower=float(late.min() - early.max()) / apart,
        upper=float(late.max() - early.min()) / apart,
        late=_least_step(points),
        blocks=tuple(blocks_of(points, max(1, third // 4), settings)[0]),
        samples=len(points.value),
        is_rough=True,
    )


def _least_step(points: Points, groups: int = 8) -> float:
    """Least slope between neighbouring eighths: one step of an arena is no growth, eight rises are."""
    count = [float(part.mean()) for part in np.array_split(points.count, groups)]
    value = [float(np.median(part)) for part in np.array_split(points.value, groups)]
    return min((value[i + 1] - value[i]) / max(count[i + 1] - count[i], 1e-9) for i in range(groups - 1))


def warm_up_cut(points: Points, settings: TrendSettings) -> int:
    """Return how many samples to drop in front so that the standard error of the slope is least.

    Dropping samples of a straight line makes its slope less certain, so a leak from the first request is
    kept whole; dropping the bend in front makes it more certain (the rule MSER, for a slope).
    """
    size = max(1, len(points.value) // _COARSE)
    groups = len(points.value) // size
    count = points.count[: groups * size].reshape(groups, size).mean(axis=1)
    value = points.value[: groups * size].reshape(groups, size).mean(axis=1)
    best, chosen = math.inf, 0
    for start in range(int(groups * settings.largest_cut) + 1):
        error = _slope_error(count[start:], value[start:])
        if error < best:
            best, chosen = error, start
    return chosen * size


def blocks_of(points: Points, length: int, settings: TrendSettings) -> tuple[list[Block], Numbers]:
    """Average the samples of each segment in blocks; also return the segment of each block."""
    blocks, segment = [], []
    for number, piece in enumerate(points.pieces()):
        spare = len(piece) % length  # dropped in front: the newest samples say most
        for part in piece[spare:].reshape(-1, length) if len(piece) >= length else ():
            value = points.value[part]
            blocks.append(
                Block(
                    seconds=float(points.seconds[part].mean()),
                    count=float(points.count[part].mean()),
                    completed=float(points.completed[part].mean()),
                    value=float(value.mean() if settings.block_statistic == "mean" else value.min()),
                )
            )
            segment.append(number)
    return blocks, np.array(segment, dtype=np.int64)


def _slope_error(count: Array, value: Array) -> float:
    if len(count) < 4:
        return math.inf
    rest = detrend(count, value, np.zeros(len(count), dtype=np.int64))
    x = count - count.mean()
    spread = float(x @ x)
    return math.sqrt(float(rest @ rest) / (len(count) - 2) / spread) if spread > 0 else math.inf
