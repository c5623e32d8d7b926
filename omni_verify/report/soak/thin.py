"""Thins a long series for display: what is left looks the same, extremes included."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["thin"]


def thin(values: Sequence[float | None], most: int) -> list[int]:
    """Return the indexes to keep, in order, about `most` of them.

    Of each stretch of equal length the first, the lowest, the highest and the last value are kept, so a spike
    of one sample stays visible at its place; None is a gap and is kept at its first place in a stretch.
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = max(1, most // 4)
    kept: set[int] = set()
    for number in range(stretches):
        span = range(len(values) * number // stretches, len(values) * (number + 1) // stretches)
        known = [(value, i) for i in span if (value := values[i]) is not None]
        if known:
            kept |= {known[0][1], min(known)[1], max(known)[1], known[-1][1]}
        kept |= set([i for i in span if values[i] is None][:1])
    return sorted(kept)
