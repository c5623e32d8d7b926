"""The median slope of all pairs, with bounds that know how correlated the values are."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from omni_verify.checks.trend.series import Array, Numbers

__all__ = ["theil_sen"]


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
