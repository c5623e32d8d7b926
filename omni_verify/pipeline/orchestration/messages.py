"""What the orchestrator tells a client about one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from omni_verify.pipeline.stages.messages import FinishReason

__all__ = ["ClientMessage", "CompletionOutput", "ErrorMessage", "OutputMessage", "RequestOutput", "Sink"]


@dataclass(slots=True)
class CompletionOutput:
    """The one completion of a request: accumulated or new text, tokens and multimodal data."""

    index: int = 0
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    multimodal_output: dict[str, Any] = field(default_factory=dict)
    finish_reason: FinishReason | None = None


@dataclass(slots=True)
class RequestOutput:
    """A processed output of one stage; `finished` speaks about the stage, not about the request."""

    request_id: str
    stage_id: int
    outputs: list[CompletionOutput]
    finished: bool
    prompt_token_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class OutputMessage:
    """One step of a request's final output; only the last one carries ``finished=True`` (I7)."""

    request_id: str
    stage_id: int
    output_type: str
    output: RequestOutput
    finished: bool = False


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """The request ended without a result; `status_code` is 4xx for the client's fault, else 5xx."""

    request_id: str
    message: str
    status_code: int = 500
    stage_id: int | None = None


ClientMessage = OutputMessage | ErrorMessage
Sink = Callable[[ClientMessage], None]
