"""From a request's prompt ids to its codes, row by row (I48, W15).

In the releases one malformed request changes the shape of the whole batch. Here a bad row is refused
alone and its batch mates never notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["CodecRow", "pad_batch", "row_from_prompt", "row_from_request"]

BOUNDARY_PLACEHOLDER = 0


@dataclass(frozen=True, slots=True)
class CodecRow:
    """One request of a batch.

    Attributes:
        codes: int64 ``[Q, T]``, context included; T is 0 where there is nothing to decode.
        context: the first so many frames were sent before and are decoded for their effect only.
        error: why the row was refused, None for a good row.
    """

    codes: torch.Tensor
    context: int = 0
    error: str | None = None

    @property
    def frames(self) -> int:
        """Frames of the request in this window: context included, batch padding not."""
        return int(self.codes.shape[1])


def row_from_request(
    prompt_token_ids: Sequence[int] | torch.Tensor,
    info: Mapping[str, Any] | None,
    num_quantizers: int,
    codebook_size: int,
) -> CodecRow:
    """Build the row of one request; a row that cannot be decoded comes back empty, with its error.

    Args:
        prompt_token_ids: codebook-major codes of length ``Q*T``; empty, or ``[0]`` at a segment boundary,
            for no frames.
        info: the request's runtime information; ``meta.left_context_size`` in frames. Missing means 0,
            for this row only.
        num_quantizers: Q.
        codebook_size: codes must be below it.
    """
    empty = torch.zeros((num_quantizers, 0), dtype=torch.int64)
    context = ((info or {}).get("meta") or {}).get("left_context_size", 0)
    try:
        codes = row_from_prompt(prompt_token_ids, num_quantizers, codebook_size)
        return CodecRow(codes, checked_context(context, codes.shape[1]))
    except ValueError as error:
        return CodecRow(empty, error=str(error))


def row_from_prompt(
    prompt_token_ids: Sequence[int] | torch.Tensor, num_quantizers: int, codebook_size: int
) -> torch.Tensor:
    """Return the codes ``[Q, T]`` of a codebook-major row (I12).

    Raises:
        ValueError: the length is no multiple of Q, or a code does not exist.
    """
    flat = torch.as_tensor(prompt_token_ids, dtype=torch.int64).reshape(-1)
    if num_quantizers > 1 and flat.numel() == 1 and int(flat[0]) == BOUNDARY_PLACEHOLDER:
        flat = flat[:0]
    if flat.numel() % num_quantizers:
        raise ValueError(
            f"{flat.numel()} codec ids are no whole number of frames of {num_quantizers} codebooks each"
        )
    if flat.numel() and not (int(flat.min()) >= 0 and int(flat.max()) < codebook_size):
        raise ValueError(
            f"codec ids must lie in [0, {codebook_size}), got {int(flat.min())} to {int(flat.max())}"
        )
    return reshape_codebook_major(flat, num_quantizers)


def reshape_codebook_major(flat: torch.Tensor, num_quantizers: int) -> torch.Tensor:
    """Return ``[Q, T]`` of a flat row; the counterpart of ``flatten_codebook_major``."""
    return flat.reshape(num_quantizers, -1)


def checked_context(context: Any, frames: int) -> int:
    """Return the left context as a number of frames.

    Raises:
        ValueError: it is no integer in ``[0, frames]``.
    """
    if isinstance(context, bool) or not isinstance(context, int) or not 0 <= context <= frames:
        raise ValueError(f"left_context_size must be an integer in [0, {frames}] frames, got {context!r}")
    return context


def pad_batch(rows: Sequence[CodecRow]) -> torch.Tensor:
    """Return ``[B, Q, max T]``; shorter rows are padded on the right with code 0.

    The decoder looks one tail ahead and otherwise back, so padding on the right reaches only samples
    that the row withholds anyway.
    """
    width = max(row.frames for row in rows)
    batch = torch.zeros((len(rows), rows[0].codes.shape[0], width), dtype=torch.int64)
    for i, row in enumerate(rows):
        batch[i, :, : row.frames] = row.codes
    return batch
