"""Which samples of a decoded window are new (I47; article section 3.8)."""

from __future__ import annotations

__all__ = ["streaming_slice", "withheld_tail"]


def withheld_tail(window_frames: int, decoded_samples: int, total_upsample: int) -> int:
    """Return the samples that the decoder holds back on the right: one value for the whole batch.

    Args:
        window_frames: padded width of the batch.
        decoded_samples: length of the decoder's output for that width.
        total_upsample: samples a frame.
    """
    return max(0, window_frames * total_upsample - decoded_samples)


def streaming_slice(context: int, frames: int, tail: int, total_upsample: int) -> tuple[int, int]:
    """Return ``(start, end)`` of a row's new samples within its decoded window.

    The tail shifts both ends: the window's context fills in what the previous window withheld.

    Args:
        context: frames of left context.
        frames: frames of the request in the window, context included and batch padding excluded.
        tail: from :func:`withheld_tail`.
        total_upsample: samples a frame.
    """
    return max(0, context * total_upsample - tail), max(0, frames * total_upsample - tail)
