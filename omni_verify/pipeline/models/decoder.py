"""The Code2Wav decoder: codec frames to samples by transposed convolutions.

Each block's transposed convolution (kernel 2r, stride r) is trimmed by r on both sides, as upstream does,
so a block maps n steps to ``r*n - r``. The trim on the left makes a sample depend on the next step, and
the decoder withholds the samples whose next step it has not seen: the tail, 555 samples for rates
8, 5, 4, 3 behind a fourfold upsampling.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["Code2WavDecoder", "Decoder", "small_decoder", "tail_samples"]


class Decoder(Protocol):
    """What decoding needs of a decoder."""

    num_quantizers: int
    total_upsample: int
    codebook_size: int

    def __call__(self, codes: torch.Tensor) -> torch.Tensor:
        """Map int64 ``[B, Q, T]`` to samples ``[B, 1, max(0, T*U - tail)]``."""
        ...


def tail_samples(rates: tuple[int, ...]) -> int:
    """Return the withheld samples: what ``n -> r*n - r`` loses over all blocks."""
    tail = 0
    for rate in rates:
        tail = (tail + 1) * rate
    return tail


# Random weights make a faint signal; this brings it to the level of speech.
LOUDNESS = 12.0


class CausalConv(nn.Module):
    """A convolution that sees no later step: padded on the left only."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels_in, channels_out, kernel, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, C, n]`` to ``[B, C', n]``."""
        out: torch.Tensor = self.conv(F.pad(x, (self.left, 0)))
        return out


class UpBlock(nn.Module):
    """Upsampling by ``rate`` with the trim on both sides: n steps become ``rate*n - rate``."""

    def __init__(self, channels_in: int, channels_out: int, rate: int) -> None:
        super().__init__()
        self.rate = rate
        self.up = nn.ConvTranspose1d(channels_in, channels_out, 2 * rate, stride=rate)
        self.smooth = CausalConv(channels_out, channels_out, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, C, n]`` to ``[B, C', rate*n - rate]``."""
        up = self.up(torch.sin(x))[..., self.rate : -self.rate]
        return up + 0.5 * torch.tanh(self.smooth(up))  # type: ignore[no-any-return]


class Code2WavDecoder(nn.Module):
    """Decodes frames to a mono waveform in [-1, 1].

    Args:
        rates: rates of the trimmed blocks.
        ratios: rates of the plain upsampling before them.
        num_quantizers: Q.
        codebook_size: codes are below it.
        channels: width of the first layers, halved by each block.
        seed: of the weights, drawn on the CPU.
    """

    def __init__(
        self,
        rates: tuple[int, ...] = (8, 5, 4, 3),
        ratios: tuple[int, ...] = (2, 2),
        num_quantizers: int = 16,
        codebook_size: int = 2048,
        channels: int = 32,
        seed: int = 40,
    ) -> None:
        super().__init__()
        self.num_quantizers, self.codebook_size = num_quantizers, codebook_size
        self.total_upsample = math.prod(rates) * math.prod(ratios)
        self.tail = tail_samples(rates)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(num_quantizers * codebook_size, channels)
            self.before = CausalConv(channels, channels, 3)
            self.plain = nn.ModuleList(nn.ConvTranspose1d(channels, channels, r, stride=r) for r in ratios)
            widths = [max(4, channels >> i) for i in range(len(rates) + 1)]
            pairs = zip(widths, widths[1:], rates, strict=False)
            self.blocks = nn.ModuleList(UpBlock(a, b, rate) for a, b, rate in pairs)
            self.after = CausalConv(widths[-1], 1, 7)
        self.requires_grad_(requires_grad=False)
        self.after.conv.weight *= LOUDNESS
        if self.after.conv.bias is not None:
            self.after.conv.bias.zero_()

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Map int64 codes ``[B, Q, T]`` to samples ``[B, 1, max(0, T*U - tail)]``."""
        batch, quantizers, frames = codes.shape
        weight = self.embedding.weight
        if frames * self.total_upsample <= self.tail:
            return weight.new_zeros((batch, 1, 0))
        offsets = torch.arange(quantizers, device=codes.device).view(1, -1, 1) * self.codebook_size
        x = self.embedding(codes + offsets).sum(dim=1).transpose(1, 2) / math.sqrt(quantizers)
        x = self.before(x)
        for layer in (*self.plain, *self.blocks):
            x = layer(x)
        return torch.tanh(self.after(x))


def small_decoder(num_quantizers: int = 2, seed: int = 41) -> Code2WavDecoder:
    """Return a scaled-down decoder in float64 for property tests: U = 12, tail = 18."""
    decoder = Code2WavDecoder((3, 2, 2), (), num_quantizers, codebook_size=2048, channels=8, seed=seed)
    return decoder.double()
