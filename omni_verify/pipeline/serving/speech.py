"""``POST /v1/audio/speech``: text to speech, complete or in pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from omni_verify.pipeline.models import tokenizer
from omni_verify.pipeline.orchestration.messages import OutputMessage
from omni_verify.pipeline.serving import jobs, refusals
from omni_verify.pipeline.serving.audio import wav_header
from omni_verify.pipeline.serving.audio_stream import AudioStream
from omni_verify.pipeline.serving.engine import Job
from omni_verify.pipeline.serving.metrics import RequestTimer
from omni_verify.pipeline.serving.schemas import SpeechRequest
from omni_verify.pipeline.serving.service import Service
from omni_verify.pipeline.serving.sse import event
from omni_verify.pipeline.stages.params import RequestOutputKind

__all__ = [
    "MAX_TIMESTAMP_HEADER",
    "SpeechResult",
    "checked_speech_job",
    "generate_audio_chunks",
    "speech_job",
    "stream_speech",
    "synthesize",
    "timestamp_headers",
    "word_times",
]

MAX_TIMESTAMP_HEADER = 4096
"""Longest ``X-Word-Timestamps`` header in bytes; proxies refuse longer ones."""


@dataclass(slots=True)
class SpeechResult:
    """What a synthesis collects beside its audio."""

    words: list[dict[str, Any]] | None = None
    samples: int = 0
    rate: int = 24_000
    chunks: int = 0


def speech_job(
    service: Service,
    text: str,
    *,
    stream: bool,
    word_timestamps: bool,
    voice: str | None = None,
    language: str | None = None,
    seed: int | None = None,
    request_id: str | None = None,
) -> Job:
    """Build the job of one synthesis.

    Raises:
        ApiError: the text is empty or too long, or the id is not usable.
    """
    tokens = tokenizer.encode(text)
    refusals.check_prompt_length(service.model, len(tokens), "input")
    full_payload = not service.pipeline.orchestrator.async_chunk
    kind = jobs.output_kind_for(stream=stream, word_timestamps=word_timestamps, full_payload=full_payload)
    params = jobs.request_params(service.defaults, kind)
    for own in params if seed is not None else ():
        own.seed = seed
    info: dict[str, Any] = {"text": [text]}
    info |= {name: [value] for name, value in (("speaker", voice), ("language", language)) if value}
    return Job(
        jobs.new_request_id("speech", request_id),
        {"prompt_token_ids": tokens, "additional_information": info},
        params,
        modalities=["audio", "timestamps"] if word_timestamps else ["audio"],
        prompt_tokens=len(tokens),
    )


def checked_speech_job(service: Service, body: SpeechRequest) -> Job:
    """Check an HTTP request and build its job; nothing has reached the engine when this raises."""
    refusals.check_speech_request(service.model, body)
    return speech_job(
        service,
        body.input,
        stream=body.is_streaming,
        word_timestamps=body.word_timestamps,
        voice=body.voice if isinstance(body.voice, str) else None,
        language=body.language,
        seed=body.seed,
        request_id=body.request_id,
    )


async def generate_audio_chunks(
    service: Service,
    job: Job,
    timer: RequestTimer,
    result: SpeechResult,
    *,
    response_format: str,
    target_rate: int | None = None,
) -> AsyncIterator[bytes]:
    """Yield the audio bytes of a synthesis; word times and counts are left in `result`.

    Whether outputs repeat earlier audio follows from the job's output kind, not from how the
    outputs look (W24).
    """
    cumulative = job.params[-1].output_kind is not RequestOutputKind.DELTA
    stream = AudioStream(response_format, cumulative=cumulative, target_rate=target_rate)
    async for message in service.engine.generate(job):
        if message.output_type == "timestamps":
            result.words = word_times(message)
            continue
        data = encode_new(stream, message, timer)
        if data:
            result.chunks += 1
            yield data
    before = stream.output_samples
    data = stream.finish()
    timer.audio(stream.output_samples - before, stream.sample_rate)
    result.samples, result.rate = stream.output_samples, stream.sample_rate
    if data:
        yield data


def encode_new(stream: AudioStream, message: OutputMessage, timer: RequestTimer) -> bytes:
    """Encode what is new in one output."""
    before = stream.output_samples
    data = stream.feed(message.output.outputs[0].multimodal_output)
    timer.audio(stream.output_samples - before, stream.sample_rate)
    return data


async def synthesize(service: Service, body: SpeechRequest, job: Job) -> tuple[bytes, SpeechResult]:
    """Run a synthesis to its end and return the whole file."""
    result = SpeechResult()
    with service.metrics.request("speech") as timer:
        pieces = [
            piece
            async for piece in generate_audio_chunks(
                service, job, timer, result, response_format="pcm", target_rate=body.sample_rate
            )
        ]
    data = b"".join(pieces)
    if body.response_format == "pcm":
        return data, result
    return wav_header(result.rate, len(data)) + data, result


async def stream_speech(service: Service, body: SpeechRequest, job: Job) -> AsyncIterator[bytes]:
    """Yield a synthesis while it runs: raw bytes, or server-sent events with base64 audio."""
    result, as_events = SpeechResult(), body.stream_format != "audio"
    with service.metrics.request("speech_stream") as timer:
        async for piece in generate_audio_chunks(
            service, job, timer, result, response_format=body.response_format, target_rate=body.sample_rate
        ):
            encoded = base64.b64encode(piece).decode("ascii")
            yield event({"type": "speech.audio.delta", "audio": encoded}) if as_events else piece
    if as_events:
        tokens = {"input_tokens": job.prompt_tokens, "output_tokens": 0, "total_tokens": job.prompt_tokens}
        yield event({"type": "speech.audio.done", "usage": tokens})


def word_times(message: OutputMessage) -> list[dict[str, Any]] | None:
    """Return the words with their times in milliseconds, or None where the alignment failed."""
    data = message.output.outputs[0].multimodal_output
    words, times = data.get("words") or [], data.get("timestamps")
    if times is None or len(times) != len(words):
        return None
    return [
        {"word": word, "start_ms": int(start), "end_ms": int(end)}
        for word, (start, end) in zip(words, times.tolist(), strict=True)
    ]


def timestamp_headers(words: list[dict[str, Any]] | None) -> dict[str, str]:
    """Build the response headers that carry word times; too long a list is left out and said so."""
    if words is None:
        return {}
    encoded = json.dumps(words, ensure_ascii=True, separators=(",", ":"))
    if len(encoded) > MAX_TIMESTAMP_HEADER:
        return {"X-Word-Timestamps-Omitted": f"oversize; bytes={len(encoded)}; limit={MAX_TIMESTAMP_HEADER}"}
    return {"X-Word-Timestamps": encoded}
