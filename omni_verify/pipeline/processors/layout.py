"""The layout of codec codes on the wire: codebook-major (I12; article section 3.4)."""

from __future__ import annotations

import torch

__all__ = ["flatten_codebook_major"]


def flatten_codebook_major(window: torch.Tensor) -> torch.Tensor:
    """Turn frames ``[T, Q]`` into one row of length ``Q*T`` with ``flat[q*T + t] == window[t, q]``.

    Flattening without the transpose gives the same length and noise instead of speech.

    Args:
        window: int64, one codec frame a row.
    """
    return window.transpose(0, 1).reshape(-1).to(torch.int64)
