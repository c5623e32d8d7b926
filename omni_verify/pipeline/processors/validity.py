"""Which rows of the Talker's output are codec frames, decided row by row (I13b; article section 3.4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

__all__ = ["is_placeholder", "is_stop_frame", "valid_frames"]


def is_placeholder(frame: torch.Tensor) -> bool:
    """Say whether a row ``[Q]`` is the all-zero placeholder of a prefill step."""
    return not bool(frame.any())


def is_stop_frame(frame: torch.Tensor, stop_tokens: Collection[int]) -> bool:
    """Say whether a row ``[Q]`` belongs to the stop token: its first codebook equals one."""
    return int(frame[0]) in stop_tokens


def valid_frames(rows: torch.Tensor, explicit: Any, stop_tokens: Collection[int]) -> list[torch.Tensor]:
    """Return the rows of ``[n, Q]`` that are frames, each ``[Q]``, in order.

    Args:
        rows: int64 codes of one step.
        explicit: ``meta.codec_frame_valid`` or None. It decides alone where it is present.
        stop_tokens: tokens that end the utterance.

    Raises:
        ValueError: ``explicit`` cannot be matched to the rows.
    """
    if explicit is not None:
        return [row for row, valid in zip(rows, explicit_flags(explicit, len(rows)), strict=True) if valid]
    return [row for row in rows if not is_placeholder(row) and not is_stop_frame(row, stop_tokens)]


def explicit_flags(explicit: Any, n: int) -> list[bool]:
    """Return one flag a row: a single flag counts for all, of a longer span the last ``n`` count."""
    flags = [bool(flag) for flag in torch.as_tensor(explicit).reshape(-1).tolist()]
    if len(flags) == 1:
        return flags * n
    if len(flags) < n:
        raise ValueError(
            f"meta.codec_frame_valid has {len(flags)} entries for {n} codec rows; give one flag, or one a row"
        )
    return flags[len(flags) - n :]
