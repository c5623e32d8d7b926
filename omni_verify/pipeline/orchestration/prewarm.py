"""Build the first requests of the stages: the real one of stage 0 and the placeholders behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omni_verify.pipeline.orchestration.state import RequestState, StageInfo
from omni_verify.pipeline.stages.messages import StageRequest

__all__ = ["initial_request", "placeholder_length", "prewarm_request"]


def initial_request(state: RequestState) -> StageRequest:
    """Build stage 0's request from the client's prompt."""
    prompt = state.prompt
    return StageRequest(
        request_id=state.request_id,
        external_req_id=state.request_id,
        prompt_token_ids=list(prompt.get("prompt_token_ids") or ()),
        sampling_params=state.sampling_params[0],
        final_stage_id=state.final_stage_id,
        resumable=state.streaming_input,
        additional_information=dict(prompt.get("additional_information") or {}),
        multi_modal_data=prompt.get("multi_modal_data"),
    )


def placeholder_length(prompt_token_ids: Sequence[int], stage: StageInfo) -> int:
    """Size a placeholder as the stage's real prompt will be, or as the given prompt when that is unknown."""
    if stage.prewarm_prompt_len is None:
        return max(1, len(prompt_token_ids))
    try:
        return max(1, stage.prewarm_prompt_len(prompt_token_ids))
    except Exception:  # an unusual prompt must not fail the request: the length is only a reservation
        return max(1, len(prompt_token_ids))


def prewarm_request(state: RequestState, stage: StageInfo) -> StageRequest:
    """Build a placeholder: zeros that give the scheduler something to hold, never something to run (I9)."""
    length = placeholder_length(list(state.prompt.get("prompt_token_ids") or ()), stage)
    carried: dict[str, Any] = {
        key: value
        for key, value in (state.prompt.get("additional_information") or {}).items()
        if key in ("speaker", "language")
    }
    return StageRequest(
        request_id=state.request_id,
        external_req_id=state.request_id,
        prompt_token_ids=[0] * length,
        sampling_params=state.sampling_params[stage.stage_id],
        final_stage_id=state.final_stage_id,
        resumable=state.streaming_input,
        additional_information=carried,
    )
