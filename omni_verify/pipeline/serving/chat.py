"""``POST /v1/chat/completions``: text and audio, complete or as server-sent events."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np

from omni_verify.pipeline.orchestration.accumulation import latest_sample_rate
from omni_verify.pipeline.orchestration.messages import OutputMessage
from omni_verify.pipeline.serving import jobs, refusals
from omni_verify.pipeline.serving.audio import Samples, encode_wav, to_pcm16, to_samples
from omni_verify.pipeline.serving.audio_stream import DEFAULT_SAMPLE_RATE, AudioStream, audio_of
from omni_verify.pipeline.serving.engine import Job
from omni_verify.pipeline.serving.schemas import ChatCompletionRequest
from omni_verify.pipeline.serving.service import Service
from omni_verify.pipeline.serving.sse import DONE, event

__all__ = ["chat_job", "complete_chat", "samples_of", "stream_chat"]

AUDIO_TTL_S = 3600
"""Seconds after which a client should not refer to an audio id any more; nothing is stored here."""


def chat_job(service: Service, body: ChatCompletionRequest) -> Job:
    """Check a request and build its job; nothing has reached the engine when this raises.

    Raises:
        ApiError: the request is refused.
    """
    refusals.check_chat_request(service.model, body)
    tokens = jobs.chat_tokens(body.messages)
    refusals.check_prompt_length(service.model, len(tokens), "messages")
    params = jobs.request_params(
        service.defaults, jobs.output_kind_for(stream=body.stream, word_timestamps=False)
    )
    jobs.override_params(params, body)
    prompt: dict[str, Any] = {"prompt_token_ids": tokens, "additional_information": {}}
    if body.audio is not None and isinstance(body.audio.voice, str):
        prompt["additional_information"]["speaker"] = [body.audio.voice]
    modalities = body.modalities or [name for name in service.model.outputs if name != "timestamps"]
    request_id = jobs.new_request_id("chatcmpl", body.request_id)
    return Job(request_id, prompt, params, modalities=modalities, prompt_tokens=len(tokens))


async def complete_chat(service: Service, body: ChatCompletionRequest, job: Job) -> dict[str, Any]:
    """Run a job and build the one response; internal streaming does not show."""
    text, tokens, finish = "", 0, "stop"
    audio: dict[str, Any] | None = None
    with service.metrics.request("chat") as timer:
        async for message in service.engine.generate(job):
            output = message.output.outputs[0]
            if message.output_type == "text":
                text, tokens = output.text, len(output.token_ids)
                finish = finish_word(message) or finish
            elif message.output_type == "audio":
                samples, rate = samples_of(output.multimodal_output)
                timer.audio(len(samples), rate)
                wav = body.audio is None or body.audio.format == "wav"
                audio = audio_object(job, encode_wav(samples, rate) if wav else to_pcm16(samples), text)
    message_out: dict[str, Any] = {"role": "assistant", "content": text if "text" in wanted(job) else None}
    if audio is not None:
        message_out["audio"] = audio | {"transcript": text}
    return envelope(job, body.model, "chat.completion") | {
        "choices": [{"index": 0, "message": message_out, "logprobs": None, "finish_reason": finish}],
        "usage": usage(job, tokens),
    }


async def stream_chat(service: Service, body: ChatCompletionRequest, job: Job) -> AsyncIterator[bytes]:
    """Run a job and yield its server-sent events.

    There is one choice, and one chunk with a finish reason, which is the last (I7, vllm-omni#7376).
    """
    audio_format = "wav" if body.audio is not None and body.audio.format == "wav" else "pcm"
    stream, tokens, finish = AudioStream(audio_format, cumulative=False), 0, "stop"

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return event(envelope(job, body.model, "chat.completion.chunk") | {"choices": [choice]})

    with service.metrics.request("chat_stream") as timer:
        yield chunk({"role": "assistant", "content": ""})
        async for message in service.engine.generate(job):
            output = message.output.outputs[0]
            if message.output_type == "text":
                tokens += len(output.token_ids)
                finish = finish_word(message) or finish
                if output.text:
                    yield chunk({"content": output.text})
            elif message.output_type == "audio":
                before = stream.output_samples
                data = stream.feed(output.multimodal_output) + (stream.finish() if message.finished else b"")
                timer.audio(stream.output_samples - before, stream.sample_rate)
                if data:
                    yield chunk({"audio": audio_object(job, data)})
        yield chunk({}, finish)
        if body.stream_options is not None and body.stream_options.include_usage:
            last = envelope(job, body.model, "chat.completion.chunk")
            yield event(last | {"choices": [], "usage": usage(job, tokens)})
    yield DONE


def samples_of(multimodal: Mapping[str, Any]) -> tuple[Samples, int]:
    """Return the waveform of a complete output and its rate in Hz."""
    audio = audio_of(multimodal)
    samples = np.zeros(0, dtype=np.float32) if audio is None else to_samples(audio)
    return samples, latest_sample_rate(multimodal.get("sr")) or DEFAULT_SAMPLE_RATE


def wanted(job: Job) -> set[str]:
    """Return the modalities of a job."""
    return set(job.modalities or ())


def finish_word(message: OutputMessage) -> str | None:
    """Return why the text ended, in OpenAI's words."""
    reason = message.output.outputs[0].finish_reason
    return None if reason is None else str(reason)


def audio_object(job: Job, data: bytes, transcript: str = "") -> dict[str, Any]:
    """Build the audio part of a message or delta."""
    return {
        "id": f"audio-{job.request_id}",
        "data": base64.b64encode(data).decode("ascii"),
        "expires_at": int(time.time()) + AUDIO_TTL_S,
        "transcript": transcript,
    }


def envelope(job: Job, model: str, kind: str) -> dict[str, Any]:
    """Build the fields that every response object has."""
    return {"id": job.request_id, "object": kind, "created": int(time.time()), "model": model}


def usage(job: Job, completion_tokens: int) -> dict[str, int]:
    """Count tokens."""
    return {
        "prompt_tokens": job.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": job.prompt_tokens + completion_tokens,
    }
