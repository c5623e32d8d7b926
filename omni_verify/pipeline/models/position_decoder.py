"""A decoder whose samples say which frame they come from, for comparisons by integers."""

from __future__ import annotations

import torch

__all__ = ["POISON", "PositionDecoder"]

POISON = -1


class PositionDecoder:
    """Sample ``j`` of frame ``f`` is ``f*U + j``, where codebook 0 of the frame holds ``f``.

    It looks at its surroundings as a real decoder does: a sample looks ``tail`` samples ahead, and needs
    the frame ``a`` that it reaches there and the ``min(a, F)`` frames before that, all consecutive. Where
    one is missing or is another frame, the sample is :data:`POISON`; so missing context, padding that
    leaks in, and a wrong layout all show at the very frame. A stream of windows is therefore equal to one
    decode exactly when each window's context is at least ``min(history, F)``.

    Args:
        num_quantizers: Q.
        total_upsample: U, samples a frame.
        tail: withheld samples.
        receptive_field: F, frames to the left.
    """

    codebook_size = 2048

    def __init__(
        self, num_quantizers: int = 16, total_upsample: int = 1920, tail: int = 555, receptive_field: int = 6
    ) -> None:
        self.num_quantizers = num_quantizers
        self.total_upsample = total_upsample
        self.tail = tail
        self.receptive_field = receptive_field

    def __call__(self, codes: torch.Tensor) -> torch.Tensor:
        """Map int64 ``[B, Q, T]`` to int64 ``[B, 1, max(0, T*U - tail)]``."""
        numbers = codes[:, 0, :]
        length = max(0, numbers.shape[1] * self.total_upsample - self.tail)
        position = torch.arange(length, device=codes.device)
        frame, ahead = position // self.total_upsample, (position + self.tail) // self.total_upsample
        run = self.run_lengths(numbers)
        context_there = run >= numbers.clamp(max=self.receptive_field)
        whole = context_there[:, ahead] & (run[:, ahead] >= ahead - frame)
        samples = numbers[:, frame] * self.total_upsample + position % self.total_upsample
        return torch.where(whole, samples, POISON).unsqueeze(1)

    @staticmethod
    def run_lengths(numbers: torch.Tensor) -> torch.Tensor:
        """Return for each frame of ``[B, T]`` how many consecutive frames precede it directly."""
        index = torch.arange(numbers.shape[1], device=numbers.device).expand_as(numbers)
        broken = torch.ones_like(numbers, dtype=torch.bool)
        broken[:, 1:] = numbers[:, 1:] != numbers[:, :-1] + 1
        start = torch.where(broken, index, torch.zeros_like(index)).cummax(dim=1).values
        return index - start
