"""The scheduler of one-shot stages such as Code2Wav: the whole prompt of a request is one step.

A request's prompt is one chunk of codes. The adapter replaces it with the next chunk; the request
ends when its upstream has ended and everything received has been computed.
"""

from __future__ import annotations

from typing import Any

from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.scheduling.base import StageScheduler, new_scheduler_output
from omni_verify.pipeline.scheduling.output import RunnerOutput, SchedulerOutput
from omni_verify.pipeline.stages.messages import StageOutput

__all__ = ["OmniGenerationScheduler", "has_nothing_to_run", "is_complete"]


class OmniGenerationScheduler(StageScheduler):
    """Batch the chunks that are ready; `num_computed_tokens` counts within the current chunk."""

    def __init__(self, stage_id: int, adapter: Any, **limits: Any) -> None:
        super().__init__(stage_id, adapter, **limits)
        self._pending_finish: list[Request] = []

    def _select(self) -> SchedulerOutput:
        output, budget = new_scheduler_output(), self.max_num_batched_tokens
        for request in list(self.running):
            budget -= self._try(output, request, budget)
        held: list[Request] = []
        while len(self.waiting) and len(self.running) < self.max_num_seqs:
            request = self.waiting.peek_request()
            if not has_nothing_to_run(request):
                if not self._fits(request, budget):
                    break
                self._admit_waiting(request)
                budget -= self._try(output, request, budget)
            elif self._is_done(request):
                self._pending_finish.append(self.waiting.pop_request())
            else:
                # An empty prompt whose upstream goes on: nothing to start with yet.
                held.append(self.waiting.pop_request())
        self.waiting.prepend_requests(held)
        return output

    def _try(self, output: SchedulerOutput, request: Request, budget: int) -> int:
        if has_nothing_to_run(request):
            if self._is_done(request):
                self._pending_finish.append(request)
            return 0
        if not self._fits(request, budget):
            return 0
        num_tokens = len(request.prompt_token_ids) - request.num_computed_tokens
        self._schedule_request(output, request, num_tokens)
        request.num_computed_tokens += num_tokens
        return num_tokens

    def _fits(self, request: Request, budget: int) -> bool:
        left = len(request.prompt_token_ids) - request.num_computed_tokens
        return left <= budget or budget == self.max_num_batched_tokens

    def _is_done(self, request: Request) -> bool:
        """Tell whether no further input will come for the current segment."""
        return not self._receives_chunks() or bool(self.adapter.is_done_receiving_chunks(request.request_id))

    def take_pending_finishes(self) -> list[StageOutput]:
        """End the requests that have nothing to compute and nothing to wait for, without a model step."""
        ready, self._pending_finish = self._pending_finish, []
        live = [request for request in ready if self.requests.get(request.request_id) is request]
        return [self._complete(request, RunnerOutput()) for request in live]

    def _update_request(self, request: Request, result: RunnerOutput) -> list[StageOutput]:
        if result.length_capped:
            return [self._end(request, result, RequestStatus.FINISHED_LENGTH_CAPPED)]
        if is_complete(request, done=self._is_done(request)):
            return [self._complete(request, result)]
        return [self._output(request, result)] if result.client_output else []

    def _complete(self, request: Request, result: RunnerOutput) -> StageOutput:
        """End the request, or only its segment where the stream may go on."""
        if not request.resumable:
            return self._end(request, result, RequestStatus.FINISHED_STOPPED)
        # Nothing is polled before this call, so the end of the stream cannot have slipped in.
        self.adapter.begin_segment(request.request_id)
        return self._output(request, result, segment_finished=True)

    def _end(self, request: Request, result: RunnerOutput, status: RequestStatus) -> StageOutput:
        self._finish(request, status)
        if self.adapter is not None:
            self.adapter.cleanup(request.request_id, request.external_req_id)
        return self._output(request, result)


def has_nothing_to_run(request: Request) -> bool:
    """Tell whether the current chunk is computed, or there is none."""
    return request.num_computed_tokens >= len(request.prompt_token_ids)


def is_complete(request: Request, *, done: bool) -> bool:
    """Tell whether the request is over: no more input will come, and what came is computed (W13)."""
    return done and has_nothing_to_run(request)
