"""The forced aligner: when is each word of a known text spoken in a complete waveform."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["SEGMENT_MS", "ForcedAligner"]

SEGMENT_MS = 80.0


class ForcedAligner(nn.Module):
    """Classifies each word marker into a time bin of 80 ms.

    Speech is measured by its energy: a word's share of the letters is mapped to the same share of the
    cumulated energy, so the words span exactly the audible part of the waveform.

    Args:
        sharpness: scale of the logits.
    """

    def __init__(self, sharpness: float = 4.0) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(sharpness), requires_grad=False)

    def forward(self, waveform: torch.Tensor, sample_rate: int, words: Sequence[str]) -> torch.Tensor:
        """Return logits ``[2 * words, bins]``: start and end marker of each word in turn.

        Args:
            waveform: mono float samples ``[n]``, complete.
            sample_rate: hertz.
            words: the words spoken, in order.
        """
        waveform = waveform.to(self.sharpness.device, torch.float32)
        marks = self.marker_shares(words).to(waveform.device)
        times = self.energy_times(waveform, sample_rate, marks)
        bins = max(1, math.ceil(waveform.numel() / sample_rate * 1000.0 / SEGMENT_MS)) + 1
        centres = torch.arange(bins, device=waveform.device, dtype=torch.float32)
        return -self.sharpness * (centres.unsqueeze(0) - times.unsqueeze(1) / SEGMENT_MS).abs()

    @staticmethod
    def marker_shares(words: Sequence[str]) -> torch.Tensor:
        """Return for each marker the share of letters before it, ``[2 * words]`` in [0, 1]."""
        lengths = torch.tensor([max(1, len(word)) for word in words], dtype=torch.float32)
        ends = lengths.cumsum(0)
        total = float(ends[-1]) if len(words) else 1.0
        return torch.stack([ends - lengths, ends], dim=1).reshape(-1) / total

    @staticmethod
    def energy_times(waveform: torch.Tensor, sample_rate: int, shares: torch.Tensor) -> torch.Tensor:
        """Return the times in milliseconds at which these shares of the energy have been heard."""
        heard = waveform.square().to(torch.float64).cumsum(0)
        if heard.numel() == 0 or float(heard[-1]) == 0.0:
            return shares * (waveform.numel() / sample_rate * 1000.0)
        wanted = shares.to(torch.float64) * heard[-1]
        samples = torch.searchsorted(heard, wanted).clamp(max=heard.numel())
        return (samples.to(torch.float64) / sample_rate * 1000.0).to(torch.float32)
