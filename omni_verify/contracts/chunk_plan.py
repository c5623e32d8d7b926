"""Which codec frames each chunk of a segment must carry (I11, I13; article section 3.5).

A restatement of the rule for judging chunks, by running totals of chunk sizes. All numbers are frames and
local to one segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat, takewhile

__all__ = ["ChunkRule", "PlannedChunk", "check_chunks", "cut_points", "full_chunks", "plan_segment"]


@dataclass(frozen=True, slots=True)
class ChunkRule:
    """Sizes of an edge: ``initial`` 0 means "as the others"; a ``ramp`` replaces ``initial``."""

    initial: int = 4
    chunk: int = 25
    left_context: int = 25
    ramp: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """Yield the new frames of chunk 0, 1, 2, ... of a stream that goes on."""
        head = self.ramp or ((self.initial,) if self.initial else ())
        return chain(head, repeat(self.chunk))


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """Frames ``[first, last)``, of which the first ``context`` were sent before."""

    first: int
    last: int
    context: int

    @property
    def window(self) -> int:
        """Frames that travel."""
        return self.last - self.first

    @property
    def new(self) -> int:
        """Frames that are audible."""
        return self.window - self.context


def full_chunks(frames: int, rule: ChunkRule) -> list[int]:
    """Return the totals after each chunk that is due without a flush.

    With one frame a step, chunk k must leave in the very step in which its total is reached.
    """
    return list(takewhile(lambda total: total <= frames, accumulate(rule.sizes())))


def cut_points(frames: int, rule: ChunkRule) -> list[int]:
    """Return the number of frames after each chunk of a segment that is flushed at ``frames``."""
    regular = full_chunks(frames, rule)
    return regular if frames == (regular[-1] if regular else 0) else [*regular, frames]


def plan_segment(frames: int, rule: ChunkRule) -> list[PlannedChunk]:
    """Return the chunks of a segment of ``frames`` frames that arrive one at a time and are flushed."""
    return chunks_between(cut_points(frames, rule), rule)


def chunks_between(cuts: Sequence[int], rule: ChunkRule) -> list[PlannedChunk]:
    """Return the chunks that end at these totals."""
    chunks = []
    for before, now in zip([0, *cuts], cuts, strict=False):
        context = min(rule.left_context, before)
        chunks.append(PlannedChunk(before - context, now, context))
    return chunks


def check_chunks(observed: Sequence[tuple[Sequence[int], int]], frames: int, rule: ChunkRule) -> list[str]:
    """Return what is wrong with the chunks of one flushed segment; empty when all is right.

    A chunk that covers several due chunks at once is allowed only as the last one: that is the flush of a
    step with several rows.

    Args:
        observed: for each chunk the numbers of its frames, in order, and its ``left_context_size``.
        frames: valid frames of the segment; they are numbered from 0.
        rule: the edge's sizes.
    """
    cuts = cut_points(frames, rule)
    ends = [chunk[-1] + 1 if chunk else 0 for chunk, _ in observed]
    if ends and ends[-1] == frames and len(ends) <= len(cuts):
        cuts = [*cuts[: len(ends) - 1], frames]
    planned = chunks_between(cuts, rule)
    problems = []
    if len(planned) != len(observed):
        problems.append(
            f"expected {len(planned)} chunks ending at {cuts}, got {len(observed)} ending at {ends}"
        )
    for k, (want, (numbers, context)) in enumerate(zip(planned, observed, strict=False)):
        if list(numbers) != list(range(want.first, want.last)):
            got = f"{numbers[0]}..{numbers[-1]} ({len(numbers)} frames)" if numbers else "no frames"
            problems.append(f"chunk {k}: expected frames {want.first}..{want.last - 1}, got {got}")
        if context != want.context:
            problems.append(f"chunk {k}: expected left_context_size {want.context}, got {context}")
    return problems
