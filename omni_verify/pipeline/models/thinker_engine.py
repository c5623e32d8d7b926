"""The built-in engine of the Thinker: prefill in pieces, then one or more tokens a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from omni_verify.pipeline.models.ar_engine import ArRequest, ArStepOutput, request_dye
from omni_verify.pipeline.models.thinker import Thinker
from omni_verify.pipeline.processors.prompts import IM_END

__all__ = ["ThinkerEngine"]

LONGEST_ANSWER = 2048


@dataclass(slots=True)
class ThinkerState:
    """One request: ``tokens`` are prompt and output, ``computed`` of them have rows."""

    request: ArRequest
    dye: int
    memory: torch.Tensor
    tokens: list[int]
    prompt_len: int
    computed: int = 0
    resumable: bool = False
    waiting: bool = field(default=False)

    @property
    def generated(self) -> int:
        """Tokens generated in the segment."""
        return len(self.tokens) - self.prompt_len


class ThinkerEngine:
    """Implements :class:`~omni_verify.pipeline.models.ar_engine.ArEngine` for the Thinker.

    Args:
        model: the weights.
        max_prefill_tokens: prompt positions a step; a longer prompt is computed in pieces.
    """

    def __init__(self, model: Thinker, max_prefill_tokens: int = 512) -> None:
        self.model = model
        self.max_prefill_tokens = max_prefill_tokens
        self.states: dict[str, ThinkerState] = {}

    def add_request(self, request: ArRequest) -> None:
        """Take a request with its prompt."""
        if request.request_id in self.states:
            raise ValueError(f"request {request.request_id!r} is live; abort it before its id is used again")
        if not request.prompt_token_ids:
            raise ValueError(f"request {request.request_id!r} has an empty prompt; give at least one token")
        self.states[request.request_id] = ThinkerState(
            request=request,
            dye=request_dye(request),
            memory=self.model.first_state(),
            tokens=list(request.prompt_token_ids),
            prompt_len=len(request.prompt_token_ids),
            resumable=request.resumable,
        )

    def feed(self, request_id: str, payload: Mapping[str, Any]) -> None:
        """Refuse: nothing is upstream of the Thinker."""
        raise ValueError(f"request {request_id!r}: the thinker is the first stage and takes no chunks")

    def resume(self, request_id: str, prompt_token_ids: Sequence[int], *, resumable: bool) -> None:
        """Start the next segment behind everything said so far."""
        state = self.states[request_id]
        state.tokens += prompt_token_ids
        state.prompt_len, state.waiting, state.resumable = len(state.tokens), False, resumable

    def is_ready(self, request_id: str) -> bool:
        """Say whether the request is live and no segment is awaited."""
        state = self.states.get(request_id)
        return state is not None and not state.waiting

    def step(self, request_ids: Sequence[str]) -> list[ArStepOutput]:
        """Advance each ready request by one step."""
        return [
            self.step_one(self.states[request_id]) for request_id in request_ids if self.is_ready(request_id)
        ]

    def step_one(self, state: ThinkerState) -> ArStepOutput:
        """Compute the rows that are due and sample where the last token has its row."""
        first, new = state.computed, []
        for _ in range(int(state.request.sampling_params.extra_args.get("tokens_per_step", 1))):
            self.compute(state)
            if state.computed < len(state.tokens):
                break
            new.append(self.sample(state))
            if self.end_reason(state) is not None:
                break
        rows = self.model.rows(state.tokens[first : state.computed], first, state.dye)
        output = ArStepOutput(
            request_id=state.request.request_id,
            new_token_ids=new,
            multimodal_output={"hidden_states": rows, "embed": self.model.special_rows()},
            num_computed_tokens=state.computed,
        )
        return self.end_step(state, output)

    def compute(self, state: ThinkerState) -> None:
        """Advance over the tokens without rows, at most the prefill limit."""
        stop = min(len(state.tokens), state.computed + self.max_prefill_tokens)
        for token in state.tokens[state.computed : stop]:
            state.memory = self.model.advance(state.memory, token)
        state.computed = stop

    def sample(self, state: ThinkerState) -> int:
        """Append the next token."""
        params = state.request.sampling_params
        noise = (params.seed or 0) if params.temperature > 0 else None
        token = self.model.next_token(state.memory, state.generated, noise)
        state.tokens.append(token)
        return token

    def end_reason(self, state: ThinkerState) -> str | None:
        """Return why the segment ends after the newest token, or None."""
        params = state.request.sampling_params
        if state.generated and state.tokens[-1] in {IM_END, *params.stop_token_ids}:
            return "stop"
        limit = LONGEST_ANSWER if params.max_tokens is None else params.max_tokens
        return "length" if state.generated >= limit else None

    def end_step(self, state: ThinkerState, output: ArStepOutput) -> ArStepOutput:
        """Mark the end of a segment or of the request."""
        output.finish_reason = self.end_reason(state) if output.new_token_ids else None
        if output.finish_reason is not None:
            if state.resumable:
                output.segment_finished = state.waiting = True
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
