"""The scheduler of autoregressive stages: prefill, then one token a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.scheduling.base import StageScheduler, new_scheduler_output
from omni_verify.pipeline.scheduling.output import RunnerOutput, SchedulerOutput
from omni_verify.pipeline.stages.messages import StageOutput

__all__ = ["OmniARAsyncScheduler", "OmniARScheduler", "join_steps", "stop_status"]


class OmniARScheduler(StageScheduler):
    """Run every running request one step, then admit waiting ones while there is room.

    On a stage that receives chunks each step of a request needs a chunk until its upstream has
    ended. There a prefill is never split: the next chunk would otherwise be taken for the rest of it.

    Args:
        full_payload: the edge behind this stage carries one complete payload, so the outputs of all
            steps are kept and handed over at the end.
    """

    def __init__(self, stage_id: int, adapter: Any, *, full_payload: bool = False, **limits: Any) -> None:
        super().__init__(stage_id, adapter, **limits)
        self._collected: dict[str, list[dict[str, Any]]] | None = {} if full_payload else None

    def _select(self) -> SchedulerOutput:
        output, budget = new_scheduler_output(), self.max_num_batched_tokens
        for request in list(self.running):
            budget -= self._try(output, request, budget)
        while len(self.waiting) and len(self.running) < self.max_num_seqs:
            request = self.waiting.peek_request()
            if self._num_tokens(request, budget) == 0:
                break
            self._admit_waiting(request)
            budget -= self._try(output, request, budget)
        return output

    def _try(self, output: SchedulerOutput, request: Request, budget: int) -> int:
        num_tokens = self._num_tokens(request, budget)
        if num_tokens:
            self._schedule_request(output, request, num_tokens)
        return num_tokens

    def _num_tokens(self, request: Request, budget: int) -> int:
        """Return how many tokens of the request fit into the step; a lone long prompt always fits."""
        left = 1 if request.output_token_ids else max(1, request.num_tokens - request.num_computed_tokens)
        if self._receives_chunks():
            return left if left <= budget or budget == self.max_num_batched_tokens else 0
        return max(0, min(left, budget))

    def _update_request(self, request: Request, result: RunnerOutput) -> list[StageOutput]:
        request.output_token_ids.extend(result.token_ids)
        if result.num_computed_tokens is not None:
            committed = request.num_computed_tokens - request.num_output_placeholders
            request.num_computed_tokens += max(0, result.num_computed_tokens - committed)
        # The token that ends a segment is a stop token too, but only the model knows what follows.
        status = None if result.segment_finished else stop_status(request, result)
        if status is not None:
            self._finish(request, status)
        self._save(request, result)
        if result.segment_finished and self._receives_chunks():
            self.adapter.begin_segment(request.request_id)
        if not (request.is_finished() or result.token_ids or result.client_output or result.segment_finished):
            return []
        return [self._output(request, result, segment_finished=result.segment_finished)]

    def _save(self, request: Request, result: RunnerOutput) -> None:
        """Hand the step's data to the edge; the end is always handed over, with data or without (I14)."""
        if self.adapter is None:
            return
        if request.is_finished():
            # Before the terminal: the receiving side of this stage is over, whatever the sender still does.
            self.adapter.cleanup_receiver(request.request_id)
        if self._collected is not None:
            self._save_complete(self._collected, request, result)
        elif result.inter_stage_output is not None or request.is_finished() or result.segment_finished:
            self.adapter.save_async(
                result.inter_stage_output,
                request,
                result.segment_finished and not request.is_finished(),
                new_token_ids=result.token_ids,
            )

    def _save_complete(
        self, collected: dict[str, list[dict[str, Any]]], request: Request, result: RunnerOutput
    ) -> None:
        if result.inter_stage_output is not None:
            collected.setdefault(request.request_id, []).append(result.inter_stage_output)
        if request.is_finished():
            steps = collected.pop(request.request_id, [])
            self.adapter.save_async(join_steps(steps), request, new_token_ids=request.output_token_ids)

    def _forget(self, request: Request, status: RequestStatus) -> None:
        super()._forget(request, status)
        if self._collected is not None and status in (
            RequestStatus.FINISHED_ABORTED,
            RequestStatus.FINISHED_ERROR,
        ):
            self._collected.pop(request.request_id, None)


class OmniARAsyncScheduler(OmniARScheduler):
    """Choose the next step before the tokens of the present one are known.

    A token that has been scheduled but not taken over counts as a placeholder, so the edge's
    watermark sees committed tokens only. A request that turns out to have ended ran one step for
    nothing; its result is dropped. This is overlap inside one stage and independent of chunks.
    """

    lookahead = True

    def _schedule_request(self, output: SchedulerOutput, request: Request, num_tokens: int) -> None:
        super()._schedule_request(output, request, num_tokens)
        request.num_output_placeholders += 1
        request.num_computed_tokens += 1

    def _settle(self, request: Request) -> None:
        request.num_output_placeholders -= 1
        request.num_computed_tokens -= 1


def join_steps(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the rows of all steps along the first axis: ``hidden_states.layers`` and ``codes``.

    Everything else is the same in every step, so the latest value stands.
    """
    joined: dict[str, Any] = {}
    for name in {name: None for step in steps for name in step}:
        values = [step[name] for step in steps if name in step]
        if name == "codes":
            joined[name] = {"audio": torch.cat([value["audio"] for value in values])}
        elif name == "hidden_states":
            layers = values[0]["layers"]
            joined[name] = {
                "layers": {layer: torch.cat([value["layers"][layer] for value in values]) for layer in layers}
            }
        else:
            joined[name] = values[-1]
    return joined


def stop_status(request: Request, result: RunnerOutput) -> RequestStatus | None:
    """Return the final status that this step gives the request, or None when it goes on."""
    params = request.sampling_params
    stop_ids = getattr(params, "stop_token_ids", None) or ()
    if result.length_capped:
        return RequestStatus.FINISHED_LENGTH_CAPPED
    if result.stopped or any(token in stop_ids for token in result.token_ids):
        return RequestStatus.FINISHED_STOPPED
    limit = getattr(params, "max_tokens", None)
    if limit is not None and len(request.output_token_ids) >= limit:
        return RequestStatus.FINISHED_LENGTH_CAPPED
    return None
