"""A slope with honest bounds from a correlated series: warm-up cut, correlation time, blocks, Theil-Sen.

Samples of memory are correlated for minutes, and a slope test that takes them as independent calls 64 % of
flat series a trend (AR(1), coefficient 0.9, 600 samples). So the samples are averaged in blocks of at least
two correlation times, and the variance of the rank statistic is raised by the correlation that is left
between blocks (Hamed and Rao's formula, with the correlation of an AR(1) process of that correlation time).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from omni_verify.checks.trend_report import Block, Fit
from omni_verify.checks.trend_settings import TrendSettings

__all__ = [
    "Points",
    "blocks_of",
    "correlation_time",
    "fit",
    "residual_correlation",
    "theil_sen",
    "warm_up_cut",
]

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_FINE = 2048
"""Most points that the correlation time is estimated from; a longer series is averaged down to it first."""
_COARSE = 40
"""Groups among which the end of the warm-up is searched."""


class Points(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one figure: equally long float arrays, in order of time.

    Attributes:
        seconds, count, completed, value: when, requests of the fit's kind by then, completed ones by then,
            what was measured.
        segment: int; only samples of one segment are compared with each other.
    """

    seconds: Array
    count: Array
    completed: Array
    value: Array
    segment: Numbers

    def at(self, chosen: slice | npt.NDArray[np.intp]) -> Points:
        """Return the points at these places."""
        return Points(
            seconds=self.seconds[chosen],
            count=self.count[chosen],
            completed=self.completed[chosen],
            value=self.value[chosen],
            segment=self.segment[chosen],
        )

    def pieces(self) -> list[npt.NDArray[np.intp]]:
        """Return the indexes of each segment."""
        return [np.flatnonzero(self.segment == number) for number in np.unique(self.segment)]


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
    left = _left_correlation(count, value, segment, length / tau if tau else math.inf)
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


def correlation_time(points: Points) -> float:
    """Return the time, in samples, in which the correlation of the detrended values falls to 1/e."""
    return residual_correlation(_detrend(points.count, points.value, points.segment))


def residual_correlation(rest: Array) -> float:
    """Return the correlation time, in samples, of values without a trend.

    The larger of two estimates: from the sum of autocorrelations over a window of five times itself
    (Sokal), which sees slow parts below fast noise, and from the first autocorrelation, which is better
    when the series is short. Both are read as those of an AR(1) process and corrected for the bias that a
    fitted line brings. 0 for uncorrelated values.
    """
    coarse = max(1, math.ceil(len(rest) / _FINE))
    size = len(rest) // coarse
    rest = rest[: size * coarse].reshape(size, coarse).mean(axis=1)
    power = float(rest @ rest)
    if size < 8 or power <= 0:
        return 0.0
    spectrum = np.fft.rfft(rest, 2 * size)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:size] / power
    total = 1.0
    for lag in range(1, size // 2):
        total += 2 * float(correlation[lag])
        if lag >= 5 * total / 2:
            break
    total = max(total, 1.0)
    phi = max((total - 1) / (total + 1), float(correlation[1]))
    phi = min(0.999, phi + (2 + 4 * phi) / size) if phi > 2 / math.sqrt(size) else 0.0
    return coarse * -1 / math.log(phi) if phi > 0.05 else 0.0


def theil_sen(
    count: Array, value: Array, segment: Numbers, confidence: float, left: Array | None = None
) -> tuple[float, float, float]:
    """Return the median of the slopes of all pairs within segments, and its one-sided bounds.

    Args:
        count, value, segment: float, float, int arrays of equal length.
        confidence: of each bound.
        left: correlation of the values at distance 1, 2, ... ; none when absent.
    """
    slopes, variance = [], 0.0
    for number in np.unique(segment):
        x, y = count[segment == number], value[segment == number]
        first, second = np.triu_indices(len(x), 1)
        apart = x[second] > x[first]
        slopes.append((y[second] - y[first])[apart] / (x[second] - x[first])[apart])
        variance += _rank_variance(len(x), left)
    every = np.sort(np.concatenate(slopes)) if slopes else np.empty(0)
    if not len(every):
        return 0.0, -math.inf, math.inf
    reach = NormalDist().inv_cdf(confidence) * math.sqrt(variance)
    low, high = math.floor((len(every) - reach) / 2), math.ceil((len(every) + reach) / 2)
    lower = float(every[low - 1]) if low >= 1 else -math.inf
    upper = float(every[high]) if high < len(every) else math.inf
    return float(np.median(every)), lower, upper


def _rank_variance(n: int, left: Array | None) -> float:
    """Variance of Kendall's S for n values whose correlation at each distance is given."""
    if n < 2:
        return 0.0
    plain = n * (n - 1) * (2 * n + 5) / 18
    if left is None or n < 3:
        return plain
    k = np.arange(1, min(n, len(left) + 1))
    weights = (n - k) * (n - k - 1) * (n - k - 2)
    raised = 1 + 2 / (n * (n - 1) * (n - 2)) * float(weights @ left[: len(k)])
    return plain * max(1.0, raised)


def _left_correlation(count: Array, value: Array, segment: Numbers, ratio: float) -> Array:
    """Correlation between blocks: what the correlation time leaves, or what is seen if that is more."""
    n = len(value)
    k = np.arange(1, n)
    left: Array
    if math.isinf(ratio):
        left = np.zeros(n - 1)
    else:
        decay = math.exp(-ratio)
        first = (1 - decay) ** 2 / (2 * (ratio - 1 + decay))
        left = np.asarray(first * decay ** (k - 1), dtype=np.float64)
    rest = _detrend(count, value, segment)
    power = float(rest @ rest)
    seen = float(rest[1:] @ rest[:-1]) / power if power > 0 else 0.0
    # a bound that is too wide costs requests, one that is too narrow costs trust: take the larger
    if seen > NormalDist().inv_cdf(0.95) / math.sqrt(n) and seen > (left[0] if n > 1 else 0):
        left = np.asarray(min(seen, 0.95) ** k, dtype=np.float64)
    return left


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


def _detrend(count: Array, value: Array, segment: Numbers) -> Array:
    rest = value.astype(np.float64).copy()
    x = count.astype(np.float64).copy()
    for number in np.unique(segment):
        rest[segment == number] -= rest[segment == number].mean()
        x[segment == number] -= x[segment == number].mean()
    spread = float(x @ x)
    return rest - (float(x @ rest) / spread) * x if spread > 0 else rest


def _slope_error(count: Array, value: Array) -> float:
    if len(count) < 4:
        return math.inf
    rest = _detrend(count, value, np.zeros(len(count), dtype=np.int64))
    x = count - count.mean()
    spread = float(x @ x)
    return math.sqrt(float(rest @ rest) / (len(count) - 2) / spread) if spread > 0 else math.inf
