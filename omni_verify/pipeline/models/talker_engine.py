"""The built-in engine of the Talker: a prefill step, then frames until the text is spoken.

Frame t uses condition t, and once the conditions are used up a digest of all of them. It waits for a
condition as long as upstream may still send one, so the frames do not depend on when chunks arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from omni_verify.contracts.payload_schema import is_truthy_scalar
from omni_verify.pipeline.models.ar_engine import ArRequest, ArStepOutput, request_dye
from omni_verify.pipeline.models.exact import wrap
from omni_verify.pipeline.models.talker import Talker

__all__ = ["TalkerEngine"]


@dataclass(slots=True)
class TalkerState:
    """One request; ``spoken``, ``conditions`` and the upstream flag belong to the current segment."""

    request: ArRequest
    dye: int
    resumable: bool
    conditions: list[torch.Tensor] = field(default_factory=list)
    spoken: int = 0
    frames: int = 0
    computed: int = 0
    tokens: int = 0
    needs_prefill: bool = True
    prefill_rows: int = 0
    segment_done: bool = False
    upstream_done: bool = False

    @property
    def no_more_conditions(self) -> bool:
        """Upstream has ended the segment or the stream."""
        return self.segment_done or self.upstream_done


class TalkerEngine:
    """Implements :class:`~omni_verify.pipeline.models.ar_engine.ArEngine` for the Talker.

    Args:
        model: the weights.
        reads_text: the Talker is the first stage and its prompt is the text (Qwen3-TTS).
        frames_per_condition: length of the speech against the text; 4 frames are 320 ms a token.
    """

    def __init__(self, model: Talker, *, reads_text: bool = False, frames_per_condition: int = 4) -> None:
        self.model = model
        self.reads_text = reads_text
        self.frames_per_condition = frames_per_condition
        self.states: dict[str, TalkerState] = {}

    def add_request(self, request: ArRequest) -> None:
        """Take a request; its prompt is text, or placeholders until the first chunk comes."""
        if request.request_id in self.states:
            raise ValueError(f"request {request.request_id!r} is live; abort it before its id is used again")
        state = TalkerState(request, request_dye(request), request.resumable)
        self.states[request.request_id] = state
        if self.reads_text:
            self.resume(request.request_id, request.prompt_token_ids, resumable=request.resumable)

    def resume(self, request_id: str, prompt_token_ids: Sequence[int], *, resumable: bool) -> None:
        """Start a segment with its text."""
        state = self.states[request_id]
        state.resumable = resumable
        start_segment(state, len(prompt_token_ids), [self.model.text_row(t) for t in prompt_token_ids])
        state.segment_done, state.upstream_done = True, not resumable

    def feed(self, request_id: str, payload: Mapping[str, Any]) -> None:
        """Take the conditions of one chunk: a prefill starts a segment, decode rows continue it."""
        state = self.states[request_id]
        embed, meta = payload.get("embed") or {}, payload.get("meta") or {}
        prefill, decode = embed.get("prefill"), embed.get("decode")
        if prefill is not None:
            prompt = min(len((payload.get("ids") or {}).get("prompt") or ()), len(prefill) - 1)
            start_segment(state, prompt, list(prefill[prompt:]))
        if decode is not None:
            state.conditions += list(decode if decode.ndim == 2 else decode.unsqueeze(0))
        state.segment_done = state.segment_done or is_truthy_scalar(meta.get("is_segment_finished"))
        state.upstream_done = state.upstream_done or is_truthy_scalar(meta.get("finished"))

    def is_ready(self, request_id: str) -> bool:
        """Say whether a prefill is due, a condition is there, or none will come any more."""
        state = self.states.get(request_id)
        if state is None or (state.needs_prefill and state.prefill_rows == 0):
            return state is not None and state.upstream_done
        return state.needs_prefill or state.spoken < len(state.conditions) or state.no_more_conditions

    def step(self, request_ids: Sequence[str]) -> list[ArStepOutput]:
        """Advance each ready request by one step."""
        return [
            self.step_one(self.states[request_id]) for request_id in request_ids if self.is_ready(request_id)
        ]

    def step_one(self, state: TalkerState) -> ArStepOutput:
        """Run the prefill, or speak the frames of one step."""
        rows, tokens, reason = [], [], None
        if state.needs_prefill and state.prefill_rows:
            state.needs_prefill, rows = False, [self.model.placeholder()]
            state.computed += state.prefill_rows
        else:
            for _ in range(int(state.request.sampling_params.extra_args.get("tokens_per_step", 1))):
                reason = self.speak(state, rows)
                tokens.append(int(rows[-1][0]))
                if reason is not None or not self.is_ready(state.request.request_id):
                    break
        output = ArStepOutput(
            request_id=state.request.request_id,
            new_token_ids=tokens,
            multimodal_output={"codes": {"audio": torch.stack(rows)}},
            num_computed_tokens=state.computed,
            finish_reason=reason,
        )
        return self.end_step(state, output)

    def speak(self, state: TalkerState, rows: list[torch.Tensor]) -> str | None:
        """Append the next frame, or the stop row; return why the segment ends, or None."""
        state.tokens += 1
        state.computed += 1
        if self.is_spoken(state):
            rows.append(self.model.stop_frame())
            return "stop"
        condition = condition_of(state, self.model.hidden_size)
        rows.append(self.model.frame(state.frames, state.dye, condition, self.frame_token(state)))
        state.frames += 1
        state.spoken += 1
        limit = state.request.sampling_params.max_tokens
        return "length" if limit is not None and state.tokens >= limit else None

    def frame_token(self, state: TalkerState) -> int:
        """Return what was sampled for the next frame: here nothing is, so 0."""
        return 0

    def is_spoken(self, state: TalkerState) -> bool:
        """Say whether the segment has all its frames: the scripted number, or the length of its text."""
        scripted = state.request.sampling_params.extra_args.get("frames")
        if scripted is not None:
            return state.spoken >= int(scripted)
        whole = self.frames_per_condition * len(state.conditions)
        return state.no_more_conditions and state.spoken >= whole

    def end_step(self, state: TalkerState, output: ArStepOutput) -> ArStepOutput:
        """Mark the end of a segment or of the request."""
        if output.finish_reason is not None:
            if state.resumable and not state.upstream_done:
                output.segment_finished = True
                state.needs_prefill, state.prefill_rows, state.conditions = True, 0, []
                state.segment_done, state.tokens = False, 0
            else:
                output.finished = True
                self.abort([output.request_id])
        return output

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget the requests."""
        for request_id in request_ids:
            self.states.pop(request_id, None)

    def live_requests(self) -> frozenset[str]:
        """Return the ids whose state is held."""
        return frozenset(self.states)

    def close(self) -> None:
        """Forget every request."""
        self.abort(list(self.states))


def start_segment(state: TalkerState, prompt_len: int, conditions: list[torch.Tensor]) -> None:
    """Begin a segment: a prefill of the prompt and of the first position is due."""
    state.needs_prefill, state.prefill_rows = True, max(1, prompt_len)
    state.conditions, state.spoken, state.segment_done = conditions, 0, False


def condition_of(state: TalkerState, hidden_size: int) -> torch.Tensor:
    """Return the condition row of the next frame, float64 ``[H]`` of whole numbers."""
    if state.spoken < len(state.conditions):
        return state.conditions[state.spoken].to(torch.float64)
    if not state.conditions:
        return torch.zeros(hidden_size, dtype=torch.float64)
    return wrap(torch.stack([row.to(torch.float64) for row in state.conditions]).sum(dim=0))
