"""Dyed frames: every codec frame says whose it is, so that no mix-up can hide.

A frame is a row of `CODEBOOKS` values below 2048: the frame's index in its stream and the stream's
number (two digits to base 2048 each), the stream's generation, and a checksum over all of them. Frames
travel codebook-major
(``codes[q * T + t]``), so a wrong layout breaks the checksum of every frame (I12), a lost, doubled
or reordered frame shows in the indices (I13, I28), and a frame of an earlier owner of the same id
shows its generation (I30, I38c).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from omni_verify.errors import UsageError

__all__ = ["CODEBOOKS", "Frame", "flatten", "paint", "read", "stream_number"]

CODEBOOKS = 6
_LIMIT = 2048


class Frame(msgspec.Struct, frozen=True, order=True):
    """Identity of one codec frame.

    Attributes:
        stream: number of the stream (one external id), see `stream_number`.
        generation: how-manieth request under that external id, from 1.
        index: position in the generation's stream, from 0.
    """

    stream: int
    generation: int
    index: int

    def row(self) -> list[int]:
        """Return the frame's codebook values, length `CODEBOOKS`, none of them a stop token.

        Raises:
            UsageError: a number is too large for its digits, so that two frames would look alike.
        """
        if not (0 <= self.index < _LIMIT**2 and 0 < self.stream < _LIMIT**2 and 0 < self.generation < _LIMIT):
            raise UsageError(
                f"no dye tells {self} apart: index and stream end at {_LIMIT**2}, generation at {_LIMIT}."
            )
        high, low = divmod(self.stream, _LIMIT)
        upper, lower = divmod(self.index, _LIMIT)
        return [
            lower,
            upper,
            low,
            high,
            self.generation,
            _checksum(self.index, self.stream, self.generation),
        ]

    def __str__(self) -> str:
        return f"stream {self.stream} generation {self.generation} frame {self.index}"


def _checksum(index: int, stream: int, generation: int) -> int:
    return 1 + (index * 31 + stream * 173 + generation * 911) % (_LIMIT - 1)


def stream_number(label: str) -> int:
    """Number of a label, the same in every process, from 1 to 2048 * 2047."""
    return 1 + zlib.crc32(label.encode()) % (_LIMIT * (_LIMIT - 1))


def paint(stream: int, generation: int, first: int, count: int) -> list[list[int]]:
    """Return rows for frames ``first .. first+count-1``, shape ``[count][CODEBOOKS]``."""
    return [Frame(stream, generation, first + i).row() for i in range(count)]


def flatten(rows: Sequence[Sequence[int]]) -> list[int]:
    """Lay rows out codebook-major: ``out[q * T + t] == rows[t][q]``."""
    return [row[q] for q in range(CODEBOOKS) for row in rows]


def read(codes: Sequence[int]) -> tuple[list[Frame], list[str]]:
    """Read codebook-major codes back.

    Returns:
        The frames in order, and what was unreadable, in words; an unreadable column is left out.
    """
    if len(codes) % CODEBOOKS:
        return [], [f"{len(codes)} codes are no multiple of {CODEBOOKS} codebooks"]
    count = len(codes) // CODEBOOKS
    frames, broken = [], []
    for t in range(count):
        row = [int(codes[q * count + t]) for q in range(CODEBOOKS)]
        lower, upper, low, high, generation, check = row
        index, stream = upper * _LIMIT + lower, high * _LIMIT + low
        if check == _checksum(index, stream, generation):
            frames.append(Frame(stream, generation, index))
        else:
            broken.append(f"column {t} reads {row}, which no stream painted")
    return frames, broken
