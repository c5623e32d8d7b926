"""How a received chunk changes the prompt of an AR stage's request."""

from __future__ import annotations

from typing import Any

__all__ = ["update_prompt"]


def update_prompt(payload: dict[str, Any], request: Any, *, is_first: bool, max_model_len: int) -> bool:
    """Extend or replace the prompt for a resumable session's next condition; True when it was replaced.

    The hidden states are in the payload; the prompt only reserves their positions, so it is filled with 0. An
    extension keeps what is computed, output tokens included, and drops what is not. The first chunk belongs
    to the prompt that the request was admitted with and changes nothing.

    Args:
        payload: the received chunk; ``meta.next_stage_prompt_len`` or ``ids.prompt`` says how many positions
            follow, ``meta.replace_streaming_prompt`` that they follow nothing.
        request: the scheduler's request.
        is_first: this is the stream's first chunk.
        max_model_len: most positions of this stage, 0 for no limit.

    Raises:
        ValueError: the length is no positive int, or the prompt does not fit.
    """
    meta = payload.get("meta") or {}
    replace = meta.get("replace_streaming_prompt") is True
    length = None if is_first and not replace else _declared_length(payload, meta)
    if length is None:
        return False
    kept = [] if replace else _computed_tokens(request)
    if max_model_len > 0 and len(kept) + length > max_model_len:
        raise ValueError(f"prompt of {len(kept)} + {length} positions exceeds max_model_len {max_model_len}")
    prompt = kept + [0] * length
    for name in ("_output_token_ids", "output_token_ids"):
        tokens = getattr(request, name, None)
        if isinstance(tokens, list):
            tokens.clear()
    if isinstance(getattr(request, "_all_token_ids", None), list):
        request._all_token_ids[:] = prompt
    request.prompt_token_ids = prompt
    request.num_prompt_tokens = len(prompt)
    if replace:
        request.num_computed_tokens = 0
    if hasattr(request, "update_block_hashes"):
        request.update_block_hashes()
    return replace


def _declared_length(payload: dict[str, Any], meta: dict[str, Any]) -> int | None:
    length = meta.get("next_stage_prompt_len")
    if length is None:
        ids = payload.get("ids")
        prompt = ids.get("prompt") if isinstance(ids, dict) else None
        return len(prompt) if prompt else None
    if not isinstance(length, int) or isinstance(length, bool) or length <= 0:
        raise ValueError(f"next_stage_prompt_len must be a positive int, got {length!r}")
    return length


def _computed_tokens(request: Any) -> list[int]:
    tokens = getattr(request, "_all_token_ids", None)
    if not isinstance(tokens, list) or not tokens:
        tokens = [*request.prompt_token_ids, *(getattr(request, "output_token_ids", None) or ())]
    return list(tokens[: int(request.num_computed_tokens)])
