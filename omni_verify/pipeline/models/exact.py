"""Weights that are whole numbers in floating point, so that every device computes the same result.

Sums of products of whole numbers are exact in float64 below 2**53, in any order. The AR models use such
weights: their tokens and rows are bit for bit the same on CPU and GPU, alone and in a batch, which lets a
test compare pipelines by equality.
"""

from __future__ import annotations

import hashlib

import torch

__all__ = ["integer_weights", "mix", "wrap"]

MODULUS = 8191


def integer_weights(seed: int, *shape: int, limit: int = 511) -> torch.Tensor:
    """Return float64 weights of whole numbers in ``[-limit, limit]``, drawn on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-limit, limit + 1, shape, generator=generator).to(torch.float64)


def wrap(values: torch.Tensor) -> torch.Tensor:
    """Fold whole numbers into ``[0, 8191)``: the non-linearity of the AR models."""
    return torch.remainder(values, MODULUS)


def mix(*parts: object, modulus: int = MODULUS) -> int:
    """Hash values to a whole number below ``modulus``; the same on every machine and Python version."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % modulus
