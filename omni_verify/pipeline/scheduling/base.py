"""What every stage's scheduler does: admission, the chunk tick, ends and failures.

All methods run on the stage's scheduler thread. The transfer adapter's own threads change nothing
here; they publish, and a tick takes over what was published (I43, I44b).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from omni_verify.errors import UsageError
from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.scheduling.output import (
    CachedRequestData,
    NewRequestData,
    RunnerOutput,
    SchedulerOutput,
)
from omni_verify.pipeline.scheduling.queue import RequestQueue
from omni_verify.pipeline.stages.messages import FinishReason, StageOutput

__all__ = ["INPUT_WAIT_TIMEOUT_S", "StageScheduler", "realign_request_status"]

logger = logging.getLogger(__name__)

INPUT_WAIT_TIMEOUT_S = 600.0
"""Seconds that a request may wait for one chunk (stall time, not stream length); 0 waits for ever (I46)."""

_FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: FinishReason.STOP,
    RequestStatus.FINISHED_LENGTH_CAPPED: FinishReason.LENGTH,
    RequestStatus.FINISHED_ABORTED: FinishReason.ABORT,
    RequestStatus.FINISHED_ERROR: FinishReason.ERROR,
}


class StageScheduler:
    """Queues of one stage; a subclass decides what runs and when a request ends.

    Args:
        adapter: the stage's transfer adapter, or None for a stage without connector edges.
        max_num_seqs: most requests in one step.
        max_num_batched_tokens: most tokens in one step.
    """

    lookahead: ClassVar[bool] = False
    """Whether a step is chosen before the results of the previous one are taken over."""

    def __init__(
        self,
        stage_id: int,
        adapter: Any,
        *,
        max_num_seqs: int = 64,
        max_num_batched_tokens: int = 65536,
        input_wait_timeout_s: float = INPUT_WAIT_TIMEOUT_S,
    ) -> None:
        self.stage_id, self.adapter = stage_id, adapter
        self.max_num_seqs, self.max_num_batched_tokens = max_num_seqs, max_num_batched_tokens
        self.input_wait_timeout_s = input_wait_timeout_s
        self.requests: dict[str, Request] = {}
        self.waiting = RequestQueue()
        self.running: list[Request] = []
        self.finished_req_ids: set[str] = set()
        self._started: set[str] = set()

    # -- requests ------------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Admit one request at the end of the waiting queue.

        Raises:
            UsageError: the id is live; its owner is not touched.
        """
        if request.request_id in self.requests:
            raise UsageError(f"stage {self.stage_id}: request id {request.request_id!r} is already live")
        self.requests[request.request_id] = request
        self.waiting.add_request(request)

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        """End requests from outside, as aborted or failed; unknown ids only lose their transfer state.

        Returns:
            The requests that were live.
        """
        ids = list(dict.fromkeys(request_ids))
        realign_request_status(self, ids)
        if self.adapter is not None:
            self.adapter.finish_requests(ids, status, self.requests)
        ended = [self.requests[request_id] for request_id in ids if request_id in self.requests]
        for request in ended:
            self._forget(request, status)
        # A request may sit in a queue that its status does not name, so the sweep goes by identity.
        self.waiting.remove_requests(ended)
        gone = {id(request) for request in ended}
        self.running = [request for request in self.running if id(request) not in gone]
        return ended

    def has_requests(self) -> bool:
        """Tell whether any request is live."""
        return bool(self.requests)

    def _forget(self, request: Request, status: RequestStatus) -> None:
        request.status = status
        del self.requests[request.request_id]
        if request.request_id in self._started:
            self._started.discard(request.request_id)
            self.finished_req_ids.add(request.request_id)

    def _finish(self, request: Request, status: RequestStatus) -> None:
        """End a request by the stage's own decision; its last chunk is saved by the caller."""
        self._forget(request, status)
        self.waiting.remove_request(request)
        self.running = [other for other in self.running if other is not request]

    # -- one tick ------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Choose one step; parked requests are restored on every way out (I44, vllm-omni#1691)."""
        try:
            if self.adapter is not None:
                self.adapter.process_pending_chunks(
                    self.waiting, self.running, scheduler_requests=self.requests
                )
            output = self._select()
            if self.adapter is not None:
                self.adapter.postprocess_scheduler_output(output, self.requests)
        finally:
            if self.adapter is not None:
                self.adapter.restore_queues(self.waiting, self.running, self.requests)
        output.finished_req_ids, self.finished_req_ids = self.finished_req_ids, set()
        return output

    def update_from_output(
        self, scheduled: SchedulerOutput, results: Mapping[str, RunnerOutput]
    ) -> list[StageOutput]:
        """Take over what the runner made of a step; requests that ended meanwhile are skipped."""
        outputs: list[StageOutput] = []
        for request_id in scheduled.num_scheduled_tokens:
            request, result = self.requests.get(request_id), results.get(request_id)
            self._settle(scheduled.requests[request_id])
            if request is not scheduled.requests[request_id] or result is None:
                continue
            if result.error is not None:
                outputs += self.fail({request_id: result.error})
            else:
                outputs += self._update_request(request, result)
        return outputs

    def drain_failures(self) -> list[StageOutput]:
        """End every request whose stream broke or stalled, and say so (W31, I36, I46).

        A failure of a request that has left this stage is reported as well: its consumer waits for
        data that will never come.
        """
        if self.adapter is None:
            return []
        failures = dict(self.adapter.collect_failed_send_request_ids())
        failures.update(self.adapter.collect_failed_receive_request_ids())
        if self.input_wait_timeout_s > 0:
            late = self.adapter.collect_timed_out_request_ids(self.input_wait_timeout_s)
            reason = f"Timed out waiting for connector input after {self.input_wait_timeout_s:g}s"
            failures.update((request_id, reason) for request_id in late if request_id not in failures)
        return self.fail(failures) if failures else []

    def fail(self, failures: Mapping[str, str]) -> list[StageOutput]:
        """End requests as failed and build the outputs that carry the reasons."""
        self.finish_requests(failures, RequestStatus.FINISHED_ERROR)
        return [
            StageOutput(
                self.stage_id, request_id, finished=True, finish_reason=FinishReason.ERROR, error=reason
            )
            for request_id, reason in failures.items()
        ]

    def take_pending_finishes(self) -> list[StageOutput]:
        """End what needs no further model step; only one-shot stages have such requests."""
        return []

    # -- helpers of subclasses -----------------------------------------------------------------

    def _select(self) -> SchedulerOutput:
        raise NotImplementedError

    def _update_request(self, request: Request, result: RunnerOutput) -> list[StageOutput]:
        raise NotImplementedError

    def _settle(self, request: Request) -> None:
        """Take note that one step of this request has come back, whether its result counts or not."""

    def _schedule_request(self, output: SchedulerOutput, request: Request, num_tokens: int) -> None:
        """Put one request into the step."""
        if request.request_id in self._started:
            cached = output.scheduled_cached_reqs
            cached.req_ids.append(request.request_id)
            cached.prompt_token_ids[request.request_id] = request.prompt_token_ids
        else:
            self._started.add(request.request_id)
            output.scheduled_new_reqs.append(
                NewRequestData(
                    req_id=request.request_id,
                    prompt_token_ids=list(request.prompt_token_ids),
                    num_computed_tokens=request.num_computed_tokens,
                    sampling_params=request.sampling_params,
                    additional_information=request.additional_information,
                    resumable=request.resumable,
                )
            )
        output.num_scheduled_tokens[request.request_id] = num_tokens
        output.requests[request.request_id] = request

    def _admit_waiting(self, request: Request) -> None:
        """Move the first waiting request to the running list."""
        popped = self.waiting.pop_request()
        assert popped is request
        request.status = RequestStatus.RUNNING
        self.running.append(request)

    def _receives_chunks(self) -> bool:
        return self.adapter is not None and self.stage_id > 0 and bool(self.adapter.receives_chunks)

    def _output(
        self, request: Request, result: RunnerOutput, *, segment_finished: bool = False
    ) -> StageOutput:
        return StageOutput(
            self.stage_id,
            request.request_id,
            token_ids=result.token_ids,
            multimodal_output=result.client_output,
            finished=request.is_finished(),
            finish_reason=_FINISH_REASONS.get(request.status),
            segment_finished=segment_finished,
        )


def new_scheduler_output() -> SchedulerOutput:
    """Return a step in which nobody runs yet."""
    return SchedulerOutput(scheduled_cached_reqs=CachedRequestData())


def realign_request_status(scheduler: StageScheduler, request_ids: Iterable[str]) -> None:
    """Make the status of requests that are about to end agree with the queue that holds them.

    A request that waits for a chunk sits in its queue between two ticks with a status of neither
    queue; removal by status would leave it there.
    """
    ids = set(request_ids)
    for request in scheduler.running:
        if request.request_id in ids and not request.is_finished():
            request.status = RequestStatus.RUNNING
    for request in scheduler.waiting:
        if request.request_id in ids and request.status in (
            RequestStatus.RUNNING,
            RequestStatus.WAITING_FOR_CHUNK,
        ):
            request.status = RequestStatus.WAITING
