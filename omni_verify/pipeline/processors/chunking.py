"""When a chunk leaves and which frames it carries (I11, I13; article section 3.5).

All counts are local to one segment. The number of frames already emitted is a function of the number of
chunks that were put, so it can only advance with a successful put: a chunk that was held, or whose put
failed, is offered again.
"""

from __future__ import annotations

from typing import NamedTuple

from omni_verify.pipeline.config.chunk_sizes import ChunkSizes

__all__ = ["ChunkWindow", "chunk_window", "emitted_frames", "left_context", "must_hold", "threshold"]


class ChunkWindow(NamedTuple):
    """Frames ``[first, last)`` of the segment, of which the first ``context`` were sent before."""

    first: int
    last: int
    context: int


def chunk_size(k: int, sizes: ChunkSizes) -> int:
    """Return the number of new frames of chunk ``k`` when the stream goes on."""
    if sizes.ramp:
        return sizes.ramp[k] if k < len(sizes.ramp) else sizes.chunk
    return sizes.initial if k == 0 and sizes.initial > 0 else sizes.chunk


def threshold(k: int, sizes: ChunkSizes) -> int:
    """Return how many frames must be there before chunk ``k`` leaves: the sum of the sizes up to it."""
    ramp = len(sizes.ramp) or 1
    head = sum(chunk_size(i, sizes) for i in range(min(k + 1, ramp)))
    return head + max(0, k + 1 - ramp) * sizes.chunk


def emitted_frames(k: int, sizes: ChunkSizes) -> int:
    """Return the number of frames in the ``k`` chunks that were put."""
    return threshold(k - 1, sizes) if k > 0 else 0


def left_context(emitted: int, limit: int) -> int:
    """Return how many emitted frames go along again: all there are, at most ``limit``."""
    return min(emitted, limit)


def must_hold(frames: int, k: int, sizes: ChunkSizes) -> bool:
    """Say whether chunk ``k`` still waits for frames."""
    return frames < threshold(k, sizes)


def chunk_window(frames: int, k: int, sizes: ChunkSizes, *, flush: bool) -> ChunkWindow | None:
    """Return the window of chunk ``k``, or None where nothing is to be sent.

    A step with several rows can overshoot the threshold; the chunk still ends at its threshold, and the
    rest leaves with the next one, so that sizes do not depend on how the model batches its steps.

    Args:
        frames: valid frames of the segment so far.
        k: chunks of this segment whose put succeeded.
        sizes: the edge's sizes.
        flush: the segment or the stream ends, everything must leave.
    """
    emitted = emitted_frames(k, sizes)
    if frames <= emitted or (not flush and must_hold(frames, k, sizes)):
        return None
    context = left_context(emitted, sizes.left_context)
    return ChunkWindow(emitted - context, frames if flush else threshold(k, sizes), context)
