"""Which samples of the utterance each decoded window must deliver (I47, I47b; article section 3.8).

Stated in absolute samples of the utterance: after N frames exactly ``N*U - tail`` samples have been
delivered, so a window delivers from the old mark to the new one.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["check_pieces", "delivered", "needed_context", "piece_of_window", "tail_of_rates"]


def tail_of_rates(rates: Iterable[int]) -> int:
    """Return the samples that blocks ``n -> r*n - r`` withhold; 555 for rates 8, 5, 4, 3."""
    at_zero = 0
    for rate in rates:
        at_zero = rate * at_zero - rate
    return -at_zero


def delivered(frames: int, upsample: int, tail: int) -> int:
    """Return the samples delivered after ``frames`` frames; the last ``tail`` are never computable."""
    return max(0, frames * upsample - tail)


def piece_of_window(first: int, context: int, frames: int, upsample: int, tail: int) -> tuple[int, int]:
    """Return the absolute samples ``[start, end)`` that a window must deliver.

    Args:
        first: number of the window's first frame in the utterance.
        context: frames of left context in the window.
        frames: frames of the window.
        upsample: samples a frame.
        tail: samples withheld on the right.
    """
    return delivered(first + context, upsample, tail), delivered(first + frames, upsample, tail)


def needed_context(history: int, receptive_field: int) -> int:
    """Return the frames of context without which a window differs from one decode of everything."""
    return min(history, receptive_field)


def check_pieces(lengths: Iterable[int], frames: int, upsample: int, tail: int) -> list[str]:
    """Return what is wrong with the lengths of an utterance's pieces, in samples; empty when nothing is."""
    total, want = sum(lengths), delivered(frames, upsample, tail)
    if total == want:
        return []
    return [f"{frames} frames must give {want} samples ({frames}*{upsample} - {tail}), got {total}"]
