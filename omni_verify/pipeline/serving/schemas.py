"""Request bodies. Types are strict: a wrong type is the client's mistake and is not converted."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ChatCompletionRequest", "ChatMessage", "SpeechRequest", "SpeechSessionConfig"]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class ChatMessage(_Strict):
    """One turn; content is text, or parts of which only text is understood."""

    role: Literal["system", "user", "assistant"]
    content: str | list[dict[str, Any]]


class ChatAudio(_Strict):
    """How chat audio is delivered."""

    format: Literal["wav", "pcm16", "pcm"] = "wav"
    voice: str | dict[str, Any] | None = None


class StreamOptions(_Strict):
    """Options of a stream."""

    include_usage: bool = False


class ChatCompletionRequest(_Strict):
    """Body of ``POST /v1/chat/completions``.

    `modalities` defaults to everything that the pipeline yields. `sampling_params_list` gives one
    object a stage and goes over the single values, which go to the first stage.
    """

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    modalities: list[str] | None = None
    audio: ChatAudio | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    n: int = 1
    sampling_params_list: list[dict[str, Any]] | None = None
    request_id: str | None = None


class SpeechRequest(_Strict):
    """Body of ``POST /v1/audio/speech``."""

    model: str
    input: str
    voice: str | dict[str, Any] | None = None
    instructions: str | None = None
    response_format: str = "wav"
    sample_rate: int | None = Field(default=None, ge=8000, le=48000)
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    stream: bool = False
    stream_format: Literal["sse", "audio"] | None = None
    word_timestamps: bool = False
    language: str | None = None
    seed: int | None = None
    request_id: str | None = None

    @property
    def is_streaming(self) -> bool:
        """Tell whether the response leaves in pieces."""
        return self.stream or self.stream_format is not None


class SpeechSessionConfig(_Strict):
    """The first message of a WebSocket session."""

    model: str | None = None
    voice: str | None = None
    language: str | None = None
    response_format: str = "wav"
    sample_rate: int | None = Field(default=None, ge=8000, le=48000)
    speed: float = Field(default=1.0, ge=0.25, le=4.0)
    stream_audio: bool = False
    word_timestamps: bool = False
    seed: int | None = None
