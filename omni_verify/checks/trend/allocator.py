"""Retained or leaked: what a trim of the allocator gives back was never lost (vllm-omni#6462).

There, 67 KB of resident memory an abort looked like a leak until ``malloc_trim`` returned 1.87 GB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from omni_verify.audit.series import Sample

__all__ = ["Trims", "find_trims"]


class Trims(msgspec.Struct, frozen=True, kw_only=True):
    """What the trims of a series say about one figure.

    Attributes:
        returned: what the last trim gave back; None without one.
        kept: how much higher the level after the last trim is than after the first; None without two trims
            that have requests between them. It has neither retention nor live requests in it.
        completed, aborted: requests between those two trims.
        risen: how far the level after the last trim lies above the lowest before it, warm-up excluded: what
            is there for certain, however steep a line may look.
    """

    returned: float | None = None
    kept: float | None = None
    completed: int = 0
    aborted: int = 0
    risen: float = 0.0

    def cover(self, growth: float, share: float) -> bool | None:
        """Tell whether retention explains that share of a growth; None when no trim can tell.

        A single trim also gives back what was retained before the growth began, so that a small leak may
        hide in a large return: then only its failure to return says something.
        """
        if self.kept is not None:
            return self.kept <= (1 - share) * growth
        if self.returned is not None and self.returned < share * growth:
            return False
        return None


def find_trims(samples: Sequence[Sample], figure: str) -> Trims:
    """Read the trims of a figure from all samples of a series."""
    runs = list(_runs(samples, figure))
    if not runs:
        return Trims()
    before, after = runs[-1]
    judged = [s for s in samples if figure in s.figures and s.phase not in ("warm-up", "trim")]
    levels = [s.figures[figure] for s in judged]
    risen = after.figures[figure] - min(levels, default=after.figures[figure])
    returned = None if before is None else before.figures[figure] - after.figures[figure]
    first = runs[0][1]
    completed, aborted = after.completed - first.completed, after.aborted - first.aborted
    if completed + aborted <= 0:
        return Trims(returned=returned, risen=risen)
    return Trims(
        returned=returned,
        kept=after.figures[figure] - first.figures[figure],
        completed=completed,
        aborted=aborted,
        risen=risen,
    )


def _runs(samples: Sequence[Sample], figure: str) -> Iterator[tuple[Sample | None, Sample]]:
    """Yield for each trim the last sample before it and the lowest within it."""
    before: Sample | None = None
    lowest: Sample | None = None
    for sample in samples:
        if figure not in sample.figures:
            continue
        if sample.phase == "trim":
            if lowest is None or sample.figures[figure] <= lowest.figures[figure]:
                lowest = sample
            continue
        if lowest is not None:
            yield before, lowest
            lowest = None
        before = sample
    if lowest is not None:
        yield before, lowest
