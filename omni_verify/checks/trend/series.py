"""The points of a fit: equally long arrays, and the line that is taken out of them."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Numbers", "Points", "detrend"]

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


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


def detrend(count: Array, value: Array, segment: Numbers) -> Array:
    """Return the values less one least-squares line and the mean of each segment."""
    rest = value.astype(np.float64).copy()
    x = count.astype(np.float64).copy()
    for number in np.unique(segment):
        rest[segment == number] -= rest[segment == number].mean()
        x[segment == number] -= x[segment == number].mean()
    spread = float(x @ x)
    return rest - (float(x @ rest) / spread) * x if spread > 0 else rest
