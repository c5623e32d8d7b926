"""The Talker: one codec frame of Q codebooks a step.

Frames are dyed: codebook 0 holds the frame's number, the others a function of (dye, number, condition,
codebook), never 0. Loss, doubling, reordering and a mix of requests are therefore visible in any frame.
"""

from __future__ import annotations

import torch
from torch import nn

from omni_verify.pipeline.models.exact import integer_weights, wrap

__all__ = ["CODEBOOKS", "CODEBOOK_SIZE", "STOP_TOKEN", "Talker"]

CODEBOOKS = 16
CODEBOOK_SIZE = 2048
STOP_TOKEN = 2150


class Talker(nn.Module):
    """Maps (dye, frame number, condition row) to the codes of one frame, exactly.

    Args:
        hidden_size: columns of a condition row.
        codebooks: Q.
        seed: of the weights.
    """

    def __init__(self, hidden_size: int = 16, codebooks: int = CODEBOOKS, seed: int = 30) -> None:
        super().__init__()
        self.hidden_size, self.codebooks = hidden_size, codebooks
        self.weights: torch.Tensor
        self.text: torch.Tensor
        self.register_buffer("weights", integer_weights(seed, codebooks - 1, hidden_size + 3))
        self.register_buffer("text", wrap(integer_weights(seed + 1, 1024, hidden_size, limit=8000)))

    def frame(self, number: int, dye: int, condition: torch.Tensor, token: int = 0) -> torch.Tensor:
        """Return the codes of one frame, int64 ``[Q]``.

        Args:
            number: of the frame in the request, from 0.
            dye: the request's mark.
            condition: row ``[H]`` of whole numbers; wire values are reduced before they are used.
            token: what a foreign engine sampled for the frame; 0 for the built-in one.
        """
        weights = self.weights
        head = torch.tensor([dye, number, token], dtype=torch.float64, device=weights.device)
        inputs = wrap(torch.cat([head, condition.to(weights)]))
        rest = 1 + torch.remainder(weights @ inputs, CODEBOOK_SIZE - 1)
        first = torch.tensor([number % CODEBOOK_SIZE], device=weights.device)
        return torch.cat([first, rest.to(torch.int64)])

    def stop_frame(self) -> torch.Tensor:
        """Return the row of the stop token, int64 ``[Q]``; it is no audio."""
        row = self.placeholder()
        row[0] = STOP_TOKEN
        return row

    def placeholder(self) -> torch.Tensor:
        """Return the all-zero row of a prefill step, int64 ``[Q]``; it is no audio either."""
        return torch.zeros(self.codebooks, dtype=torch.int64, device=self.weights.device)

    def text_row(self, token: int) -> torch.Tensor:
        """Return the condition row of a text token, for a Talker that reads text itself."""
        return self.text[token % 1024]
