"""Which stages work by chunks and which edges are legal (I1, I4, I4b, I5; article sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["RESOLVED", "any_chunking", "illegal_edges", "resolved_modes", "unfed_receivers"]

RESOLVED: dict[tuple[bool, bool | None], bool] = {
    (False, None): False,
    (False, False): False,
    (False, True): False,
    (True, None): True,
    (True, False): False,
    (True, True): True,
}
"""The resolved mode for (pipeline flag, stage flag); a stage without an entry counts as None."""


def resolved_modes(pipeline: bool, stages: Sequence[bool | None]) -> list[bool]:  # noqa: FBT001 - a flag to resolve
    """Return the mode of every stage; a pipeline with one stage has no edge and never chunks."""
    return [RESOLVED[pipeline and len(stages) > 1, stage] for stage in stages]


def illegal_edges(modes: Sequence[bool], produces_chunks: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the edges k -> k+1 that send chunks and whose ends disagree.

    Args:
        modes: resolved mode of every stage of a linear pipeline.
        produces_chunks: whether the stage declares a chunk processor for the next one.
    """
    pairs = zip(modes, modes[1:], produces_chunks, strict=False)
    return [(k, k + 1) for k, (a, b, chunks) in enumerate(pairs) if chunks and a is not b]


def unfed_receivers(modes: Sequence[bool], produces_chunks: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the edges whose consumer waits for chunks that the producer never sends."""
    pairs = zip(modes[1:], produces_chunks, strict=False)
    return [(k, k + 1) for k, (receives, chunks) in enumerate(pairs) if receives and not chunks]


def any_chunking(modes: Sequence[bool]) -> bool:
    """Say whether the pipeline chunks at all: stage 0 does not decide for the others."""
    return True in modes
