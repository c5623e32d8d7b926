"""Pick what a client has not heard yet out of successive audio outputs (I40, I42, W24).

An engine that accumulates sends 800, 2000, 2400 samples; the client must get 800, 1200 and 400.
Whether an output repeats what came before follows from the request's output kind. The Python type
says nothing about it: a list may hold all pieces so far, or just the several new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from omni_verify.pipeline.serving.audio import Samples, to_samples

__all__ = ["AudioTrimmer", "new_pieces", "trim_cumulative"]


@dataclass(slots=True)
class AudioTrimmer:
    """Counters of one client stream, in samples and pieces at the source rate."""

    cumulative: bool
    emitted_samples: int = 0
    prev_count: int = 0

    def take(self, audio: Any) -> Samples:
        """Return the new samples of one output; empty when there are none."""
        if isinstance(audio, list):
            pieces = [to_samples(piece) for piece in new_pieces(self, audio)]
            new = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.float32)
            self.emitted_samples += len(new)
            return new
        return trim_cumulative(self, to_samples(audio))


def new_pieces(trimmer: AudioTrimmer, pieces: list[Any]) -> list[Any]:
    """Return the pieces of a list that were not in an earlier one; a DELTA list is new as a whole."""
    if not trimmer.cumulative:
        return pieces
    new = pieces[trimmer.prev_count :]
    trimmer.prev_count = max(trimmer.prev_count, len(pieces))
    return new


def trim_cumulative(trimmer: AudioTrimmer, samples: Samples) -> Samples:
    """Cut the prefix that has been sent, in source samples; the count never moves back."""
    if not trimmer.cumulative:
        trimmer.emitted_samples += len(samples)
        return samples
    new = samples[trimmer.emitted_samples :]
    trimmer.emitted_samples = max(trimmer.emitted_samples, len(samples))
    return new
