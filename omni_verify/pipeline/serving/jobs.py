"""From a checked request body to a job: ids, prompts and sampling parameters."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from omni_verify.errors import UsageError
from omni_verify.pipeline.models import tokenizer
from omni_verify.pipeline.serving.errors import ApiError
from omni_verify.pipeline.serving.schemas import ChatCompletionRequest, ChatMessage
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams

__all__ = ["chat_tokens", "new_request_id", "output_kind_for", "override_params", "request_params"]

USER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""Ids a client may choose: they become part of file names of the transport (W16)."""


def new_request_id(prefix: str, user_id: str | None = None) -> str:
    """Build a unique id; a client's own id only becomes a part of it, so it cannot collide.

    Raises:
        ApiError: the client's id is not usable.
    """
    if user_id is None:
        return f"{prefix}-{uuid.uuid4().hex}"
    if not USER_ID.fullmatch(user_id):
        raise ApiError(
            400,
            "request_id must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit",
            param="request_id",
            code="invalid_request_id",
        )
    return f"{prefix}-{user_id}-{uuid.uuid4().hex[:8]}"


def chat_tokens(messages: Sequence[ChatMessage]) -> list[int]:
    """Build the prompt of a conversation.

    Raises:
        ApiError: a content part is not text.
    """
    return tokenizer.chat_prompt(
        [{"role": each.role, "content": content_text(each.content)} for each in messages]
    )


def content_text(content: str | Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a message.

    Raises:
        ApiError: a part is of another type, or has no text.
    """
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ApiError(
                400,
                f"content parts must be of type 'text' with a text, got {part.get('type')!r}",
                param="messages",
            )
        texts.append(part["text"])
    return "\n".join(texts)


def output_kind_for(*, stream: bool, word_timestamps: bool, full_payload: bool = False) -> RequestOutputKind:
    """Choose how outputs accumulate.

    A stream gets each new piece. With word timestamps the aligner needs the whole waveform at the
    end, which draining after each piece would have thrown away (I49, vllm-omni#7544).
    """
    if not stream or full_payload:
        return RequestOutputKind.FINAL_ONLY
    return RequestOutputKind.CUMULATIVE if word_timestamps else RequestOutputKind.DELTA


def request_params(defaults: Sequence[SamplingParams], kind: RequestOutputKind) -> list[SamplingParams]:
    """Return this request's own parameters; the shared defaults stay as they are (I41)."""
    chosen = []
    for shared in defaults:
        own = shared.clone()
        own.output_kind = kind
        chosen.append(own)
    return chosen


def override_params(params: list[SamplingParams], body: ChatCompletionRequest) -> None:
    """Apply a client's values to the request's own parameters.

    Raises:
        ApiError: a value is unknown, of the wrong type, or for a stage that does not exist.
    """
    first = {
        "max_tokens": body.max_completion_tokens or body.max_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "seed": body.seed,
    }
    overrides: list[Mapping[str, Any]] = [{name: v for name, v in first.items() if v is not None}]
    if body.seed is not None:
        overrides += [{"seed": body.seed} for _ in params[1:]]
    for own, values in zip(params, overrides, strict=False):
        apply(own, values, "sampling parameters")
    listed = body.sampling_params_list or []
    if len(listed) > len(params):
        raise ApiError(
            400,
            f"sampling_params_list has {len(listed)} entries for a pipeline of {len(params)} stages",
            param="sampling_params_list",
        )
    for own, values in zip(params, listed, strict=False):
        apply(own, values, "sampling_params_list")


def apply(own: SamplingParams, values: Mapping[str, Any], param: str) -> None:
    """Set checked values on one stage's parameters."""
    try:
        checked = SamplingParams.from_mapping({k: v for k, v in values.items() if k != "output_kind"})
    except UsageError as error:
        raise ApiError(400, str(error), param=param) from error
    for name in values:
        if name != "output_kind":
            setattr(own, name, getattr(checked, name))
