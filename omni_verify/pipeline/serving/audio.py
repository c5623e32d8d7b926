"""Samples to bytes: mono float waveforms, PCM16, WAV headers and a streaming resampler."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr
import torch

__all__ = ["FORMATS", "StreamResampler", "encode_wav", "to_pcm16", "to_samples", "wav_header"]

Samples = npt.NDArray[np.float32]

FORMATS = {"wav": "audio/wav", "pcm": "audio/pcm"}
"""Response formats with their media types; PCM is 16-bit little-endian mono."""
STREAMING_SIZE = 0xFFFFFFFF
"""Size field of a WAV header whose length is not known yet; players read to the end of the stream."""


def to_samples(audio: Any) -> Samples:
    """Turn one waveform (tensor or array, ``[samples]`` or ``[1, samples]``) into 1-D float32 on the host.

    Raises:
        ValueError: more than one channel.
    """
    array = audio.detach().to("cpu", torch.float32).numpy() if isinstance(audio, torch.Tensor) else audio
    array = np.asarray(array, dtype=np.float32)
    squeezed = array.reshape(-1) if array.size <= 1 else array.squeeze()
    if squeezed.ndim != 1:
        raise ValueError(
            f"expected a mono waveform, got shape {array.shape}; mix or select one channel first"
        )
    return np.ascontiguousarray(squeezed)


def to_pcm16(samples: Samples) -> bytes:
    """Encode float samples in [-1, 1] as little-endian int16; values outside are clipped, NaN is silence."""
    finite = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.round(np.clip(finite, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()


def wav_header(sample_rate: int, data_bytes: int | None = None) -> bytes:
    """Build the 44-byte header of a mono PCM16 file; without a length it is the header of a stream."""
    data_size = STREAMING_SIZE if data_bytes is None else data_bytes
    riff_size = STREAMING_SIZE if data_bytes is None else 36 + data_bytes
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff_size,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        sample_rate,
        sample_rate * 2,
        2,
        16,
        b"data",
        data_size,
    )


def encode_wav(samples: Samples, sample_rate: int) -> bytes:
    """Build a complete WAV file."""
    data = to_pcm16(samples)
    return wav_header(sample_rate, len(data)) + data


class StreamResampler:
    """Resample a mono stream piece by piece, with the same result as resampling the whole.

    Equal rates pass through untouched.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        self.source_rate, self.target_rate = source_rate, target_rate
        self._stream = None
        if source_rate != target_rate:
            self._stream = soxr.ResampleStream(source_rate, target_rate, 1, dtype="float32")

    def feed(self, samples: Samples) -> Samples:
        """Return the output samples that are certain by now; the rest comes later."""
        if self._stream is None:
            return samples
        return np.asarray(self._stream.resample_chunk(samples, last=False), dtype=np.float32)

    def flush(self) -> Samples:
        """Return what the filter still holds; the stream is over afterwards."""
        empty = np.zeros(0, dtype=np.float32)
        if self._stream is None:
            return empty
        stream, self._stream = self._stream, None
        return np.asarray(stream.resample_chunk(empty, last=True), dtype=np.float32)
