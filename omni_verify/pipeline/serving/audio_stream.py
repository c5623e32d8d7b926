"""Encode one request's audio for its client while it is being produced.

The order is fixed: trim what was sent, in source samples; resample; header before the first audio;
PCM16. Trimming behind the resampler would count in the wrong rate (I40).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from omni_verify.pipeline.orchestration.accumulation import AUDIO_KEYS, latest_sample_rate
from omni_verify.pipeline.serving.audio import Samples, StreamResampler, to_pcm16, wav_header
from omni_verify.pipeline.serving.trimming import AudioTrimmer

__all__ = ["DEFAULT_SAMPLE_RATE", "AudioStream", "audio_of"]

DEFAULT_SAMPLE_RATE = 24_000
"""Rate in Hz assumed for raw PCM when the model names none."""


def audio_of(multimodal: Mapping[str, Any]) -> Any:
    """Return the waveform of an output, or None when it carries no audio."""
    return next((multimodal[key] for key in AUDIO_KEYS if multimodal.get(key) is not None), None)


class AudioStream:
    """Audio outputs in, bytes out; one object a client stream.

    Args:
        response_format: ``"wav"`` starts with a streaming header, ``"pcm"`` has none.
        cumulative: whether each output repeats the earlier ones.
        target_rate: rate for the client in Hz; None keeps the model's.
    """

    def __init__(self, response_format: str, *, cumulative: bool, target_rate: int | None = None) -> None:
        self.response_format, self.target_rate = response_format, target_rate
        self.trimmer = AudioTrimmer(cumulative)
        self.source_rate: int | None = None
        self.output_samples = 0
        self._resampler: StreamResampler | None = None
        self._header_sent = False

    @property
    def sample_rate(self) -> int:
        """Rate of the bytes in Hz."""
        return self.target_rate or self.source_rate or DEFAULT_SAMPLE_RATE

    def feed(self, multimodal: Mapping[str, Any]) -> bytes:
        """Encode what is new in one output.

        Raises:
            ValueError: the sample rate changed, or a WAV stream has none.
        """
        audio = audio_of(multimodal)
        if audio is None:
            return b""
        self._note_rate(latest_sample_rate(multimodal.get("sr")))
        return self._encode(prepare_samples(self, audio))

    def finish(self) -> bytes:
        """Flush the resampler; nothing may be fed afterwards."""
        return b"" if self._resampler is None else self._encode(self._resampler.flush())

    def resample(self, samples: Samples) -> Samples:
        """Convert to the client's rate; the filter keeps a few samples until more come."""
        if self._resampler is None:
            self._resampler = StreamResampler(self.source_rate or DEFAULT_SAMPLE_RATE, self.sample_rate)
        return self._resampler.feed(samples)

    def _note_rate(self, rate: int | None) -> None:
        if self.source_rate is None:
            if rate is None and self.response_format == "wav":
                raise ValueError(
                    "a WAV stream needs the sample rate with the first audio, the model gave none"
                )
            self.source_rate = rate or DEFAULT_SAMPLE_RATE
        elif rate is not None and rate != self.source_rate:
            raise ValueError(
                f"the sample rate changed from {self.source_rate} to {rate} Hz within one stream"
            )

    def _encode(self, samples: Samples) -> bytes:
        if not len(samples):
            return b""
        self.output_samples += len(samples)
        header = b""
        if self.response_format == "wav" and not self._header_sent:
            header, self._header_sent = wav_header(self.sample_rate), True
        return header + to_pcm16(samples)


def prepare_samples(stream: AudioStream, audio: Any) -> Samples:
    """Reduce one output to the client's new samples: trim first, then resample (I40)."""
    new = stream.trimmer.take(audio)
    return stream.resample(new) if len(new) else np.zeros(0, dtype=np.float32)
