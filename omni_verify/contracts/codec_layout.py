"""The order of codec codes on the wire: all times of codebook 0, then of codebook 1, ... (I12)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["check_layout", "frames_of", "wire_order"]


def wire_order(frames: Sequence[Sequence[int]]) -> list[int]:
    """Return the flat row of frames; each frame lists one code per codebook."""
    codebooks = len(frames[0]) if frames else 0
    return [frame[q] for q in range(codebooks) for frame in frames]


def frames_of(flat: Sequence[int], codebooks: int) -> list[list[int]]:
    """Return the frames of a flat row.

    Raises:
        ValueError: the length is no multiple of ``codebooks``.
    """
    times, rest = divmod(len(flat), codebooks)
    if rest:
        raise ValueError(f"{len(flat)} codes are no whole number of frames of {codebooks} codebooks")
    return [[flat[q * times + t] for q in range(codebooks)] for t in range(times)]


def check_layout(flat: Sequence[int], frames: Sequence[Sequence[int]]) -> list[str]:
    """Return how a flat row differs from these frames in codebook-major order; empty when it does not."""
    want = wire_order(frames)
    if len(flat) != len(want):
        return [f"expected {len(want)} codes for {len(frames)} frames, got {len(flat)}"]
    wrong = [i for i, (a, b) in enumerate(zip(flat, want, strict=True)) if a != b]
    if not wrong:
        return []
    at = wrong[0]
    q, t = divmod(at, len(frames))
    where = f"codebook {q}, frame {t}: expected {want[at]}, got {flat[at]}"
    return [f"{len(wrong)} of {len(want)} codes differ, first at {where}"]
