"""How long a value of a series hangs on the ones before, and what of it is left between blocks."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from omni_verify.checks.trend.series import Array, Numbers, Points, detrend

__all__ = ["correlation_time", "left_correlation", "residual_correlation"]

_FINE = 2048
"""Most points that the correlation time is estimated from; a longer series is averaged down to it first."""


def correlation_time(points: Points) -> float:
    """Return the time, in samples, in which the correlation of the detrended values falls to 1/e."""
    return residual_correlation(detrend(points.count, points.value, points.segment))


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


def left_correlation(count: Array, value: Array, segment: Numbers, ratio: float) -> Array:
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
    rest = detrend(count, value, segment)
    power = float(rest @ rest)
    seen = float(rest[1:] @ rest[:-1]) / power if power > 0 else 0.0
    # a bound that is too wide costs requests, one that is too narrow costs trust: take the larger
    if seen > NormalDist().inv_cdf(0.95) / math.sqrt(n) and seen > (left[0] if n > 1 else 0):
        left = np.asarray(min(seen, 0.95) ** k, dtype=np.float64)
    return left
