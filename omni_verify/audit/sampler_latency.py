"""Latencies as HDR-style histograms: a fixed relative precision over many orders of magnitude.

A library exists (hdrhistogram), but it brings two build-time packages along at run time; what is needed here
is counting in logarithmic buckets with linear sub-buckets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["PERCENTILES", "Histogram"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_SUB_BITS = 7
_UNIT_S = 1e-6


class Histogram:
    """Counts durations with a relative error below 1 % (a 128th), from a microsecond on.

    Args:
        counts: buckets of an earlier part of the same run, as `counts` gives them.
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: dict[int, int] = {int(k): v for k, v in (counts or {}).items()}
        self.total = sum(self._counts.values())

    def record(self, seconds: float) -> None:
        """Count one duration; a negative one counts as zero."""
        bucket = _bucket(max(0, round(seconds / _UNIT_S)))
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.total += 1

    def percentile(self, percent: float) -> float:
        """Return the upper edge of the bucket below which so many percent lie, in seconds; nan when empty."""
        if not self.total:
            return math.nan
        wanted, seen = math.ceil(self.total * percent / 100), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return _edge(bucket) * _UNIT_S
        raise AssertionError("unreachable: the counts add up to the total")

    def figures(self, name: str) -> dict[str, float]:
        """Return ``latency.<name>.p50`` and so on in seconds, and ``.count``; empty without a duration."""
        if not self.total:
            return {}
        values = {f"latency.{name}.p{p:g}": self.percentile(p) for p in PERCENTILES}
        return {
            **values,
            f"latency.{name}.max": self.percentile(100),
            f"latency.{name}.count": float(self.total),
        }

    def counts(self) -> dict[str, int]:
        """Return the buckets, for a checkpoint."""
        return {str(k): v for k, v in sorted(self._counts.items())}


def _bucket(units: int) -> int:
    """Number of the bucket of a value: exact below 128, then 128 to an octave."""
    shift = max(0, units.bit_length() - _SUB_BITS - 1)
    return (shift << _SUB_BITS) + (units >> shift)


def _edge(bucket: int) -> int:
    """Largest value of a bucket."""
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    mantissa = bucket - (shift << _SUB_BITS)
    return ((mantissa + 1) << shift) - 1
