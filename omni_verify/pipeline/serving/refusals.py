"""What an endpoint refuses before any engine work (I42b)."""

from __future__ import annotations

from dataclasses import dataclass

from omni_verify.pipeline.serving.audio import FORMATS
from omni_verify.pipeline.serving.errors import ApiError
from omni_verify.pipeline.serving.schemas import ChatCompletionRequest, SpeechRequest, SpeechSessionConfig

__all__ = [
    "ServedModel",
    "check_chat_request",
    "check_model",
    "check_prompt_length",
    "check_session_config",
    "check_speech_request",
]

WEBSOCKET_HINT = (
    "word_timestamps with a streaming response is served by the WebSocket /v1/audio/speech/stream, "
    "with stream_audio=true and response_format='pcm'"
)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the server offers.

    Attributes:
        outputs: final output types of the pipeline, for example ``("text", "audio")``.
        is_chat: a text stage is in front, so speech comes through chat completions.
        has_aligner: word timestamps can be made.
        max_input_tokens: longest prompt.
    """

    name: str
    outputs: tuple[str, ...]
    is_chat: bool
    has_aligner: bool
    max_input_tokens: int = 32_768


def check_model(model: ServedModel, name: str | None) -> None:
    """Refuse another model's name."""
    if name is not None and name != model.name:
        raise ApiError(
            404,
            f"the model {name!r} does not exist; this server has {model.name!r}",
            param="model",
            code="model_not_found",
        )


def check_prompt_length(model: ServedModel, tokens: int, param: str) -> None:
    """Refuse an empty prompt and one that is too long."""
    if tokens == 0:
        raise ApiError(400, f"{param} is empty", param=param)
    if tokens > model.max_input_tokens:
        raise ApiError(
            400,
            f"{param} has {tokens} tokens, at most {model.max_input_tokens} are accepted",
            param=param,
            code="context_length_exceeded",
        )


def check_chat_request(model: ServedModel, body: ChatCompletionRequest) -> None:
    """Refuse a chat request that this server cannot serve."""
    check_model(model, body.model)
    if not model.is_chat:
        raise ApiError(
            400, f"{model.name!r} speaks given text only; use /v1/audio/speech", code="wrong_endpoint"
        )
    if body.n != 1:
        raise ApiError(400, f"n must be 1, got {body.n}", param="n")
    unknown = sorted(set(body.modalities or ()) - set(model.outputs))
    if unknown or body.modalities == []:
        raise ApiError(
            400,
            f"modalities must be some of {list(model.outputs)}, got {body.modalities}",
            param="modalities",
        )


def check_speech_request(model: ServedModel, body: SpeechRequest) -> None:
    """Refuse a speech request that this server cannot serve."""
    check_model(model, body.model)
    if model.is_chat:
        raise ApiError(
            400,
            f"{model.name!r} is a conversation model with a talker; use /v1/chat/completions",
            code="wrong_endpoint",
        )
    if body.response_format not in FORMATS:
        raise ApiError(
            400,
            f"response_format must be one of {sorted(FORMATS)}, got {body.response_format!r}",
            param="response_format",
        )
    if body.speed != 1.0:
        raise ApiError(400, f"speed other than 1 is not supported, got {body.speed}", param="speed")
    if not body.input.strip():
        raise ApiError(400, "input is empty", param="input")
    check_timestamps(model, wanted=body.word_timestamps)
    if body.word_timestamps and body.is_streaming:
        raise ApiError(400, WEBSOCKET_HINT, param="word_timestamps")


def check_session_config(model: ServedModel, body: SpeechSessionConfig) -> None:
    """Refuse a WebSocket session that this server cannot serve."""
    check_model(model, body.model)
    if model.is_chat:
        raise ApiError(
            400, f"{model.name!r} is a conversation model; use /v1/chat/completions", code="wrong_endpoint"
        )
    if body.response_format not in FORMATS:
        raise ApiError(400, f"response_format must be one of {sorted(FORMATS)}", param="response_format")
    if body.speed != 1.0:
        raise ApiError(400, "speed other than 1 is not supported", param="speed")
    check_timestamps(model, wanted=body.word_timestamps)
    if body.word_timestamps and not (body.stream_audio and body.response_format == "pcm"):
        raise ApiError(
            400, "word_timestamps needs stream_audio=true and response_format='pcm'", param="word_timestamps"
        )


def check_timestamps(model: ServedModel, *, wanted: bool) -> None:
    """Refuse word timestamps without an aligner stage."""
    if wanted and not model.has_aligner:
        raise ApiError(
            400,
            "word_timestamps needs a server that was started with --forced-aligner",
            param="word_timestamps",
        )
