"""A stage without its execution mode: scheduler, model runner and adapter, one tick at a time."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from omni_verify.errors import UsageError
from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.scheduling import RunnerOutput, SchedulerOutput, StageScheduler
from omni_verify.pipeline.stages.messages import (
    FinishReason,
    StageEvent,
    StageOutput,
    StageRequest,
    TransferReleased,
    TransferSent,
)
from omni_verify.pipeline.stages.reclaim import reclaim_request

__all__ = ["ModelRunner", "StageCore", "release_is_done"]

logger = logging.getLogger(__name__)

RELEASE_GIVE_UP_S = 4.0
"""Seconds after which a release is answered although a blocked put holds it; below the caller's limit."""

Step = tuple[SchedulerOutput, Mapping[str, RunnerOutput]]


class ModelRunner(Protocol):
    """What computes the steps that a scheduler has chosen."""

    def admit(self, request: StageRequest) -> None:
        """Note what the scheduler does not carry, such as multimodal input."""
        ...

    def execute(self, scheduled: SchedulerOutput) -> Mapping[str, RunnerOutput]:
        """Compute one step; first drop the state of `finished_req_ids`."""
        ...

    def close(self) -> None:
        """Free the model; idempotent."""
        ...


class StageCore:
    """One stage; every method is called by the stage's scheduler thread.

    Args:
        adapter: the transfer adapter, or None where the stage has no connector edge.
        successor: the stage replaces one that was killed, so objects that nobody here remembers may
            exist and releases look for them by name.
    """

    def __init__(
        self,
        stage_id: int,
        scheduler: StageScheduler,
        runner: ModelRunner,
        adapter: Any,
        *,
        successor: bool = False,
    ) -> None:
        self.stage_id, self.scheduler, self.runner, self.adapter = stage_id, scheduler, runner, adapter
        self.successor = successor
        self.counters: Counter[str] = Counter()
        self._events: deque[StageEvent] = deque()
        self._in_flight: Step | None = None
        self._releases: deque[tuple[tuple[str, ...], float]] = deque()
        self._unsent: dict[str, None] = {}  # finished here, with chunks still queued

    # -- commands ------------------------------------------------------------------------------

    def add(self, request: StageRequest) -> None:
        """Admit one request; a refusal becomes an error output."""
        try:
            self.scheduler.add_request(build_request(request))
            self.runner.admit(request)
        except (UsageError, ValueError) as error:
            self._emit_error(request.request_id, str(error))
        else:
            self.counters["requests"] += 1

    def abort(self, request_ids: Sequence[str]) -> None:
        """End requests because nobody wants them; also where the stage itself has finished them.

        A stage that has sent its last chunk may still own unread ones (I31, I39).
        """
        ended = self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)
        self.counters["aborted"] += len(ended)
        for request_id in request_ids:
            self._unsent.pop(request_id, None)

    def release(self, request_ids: Sequence[str]) -> None:
        """Start to remove what ended requests left unread; answered when it is gone.

        The stream is ended first. A consumer that stopped early leaves its producer with chunks still
        queued, and a release of a stream that looks live would be taken for one that came too early.
        """
        if self.adapter is not None:
            for request_id in request_ids:
                self._unsent.pop(request_id, None)
                self.adapter.cleanup_sender(request_id)
                self.adapter.release_shm_resources(request_id)
                if self.successor:
                    reclaim_request(self.adapter.connector, request_id, self.stage_id)
        self._releases.append((tuple(request_ids), time.monotonic()))

    # -- work ----------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Run one round: failures, one step, its results; tell whether anything happened."""
        before = len(self._events)
        self._events.extend(self.scheduler.drain_failures())
        scheduled = self.scheduler.schedule()
        self._events.extend(self.scheduler.take_pending_finishes())
        ran = self._execute(scheduled) if not scheduled.is_empty or scheduled.finished_req_ids else None
        if self.scheduler.lookahead:
            ran, self._in_flight = self._in_flight, ran
        if ran is not None:
            self._events.extend(self.scheduler.update_from_output(*ran))
        self._tell_unsent(list(self._events)[before:])
        self._answer_releases()
        return not scheduled.is_empty or len(self._events) != before

    def take_events(self) -> list[StageEvent]:
        """Take what happened since the last call."""
        events, self._events = list(self._events), deque()
        return events

    def busy(self) -> bool:
        """Tell whether ticks may make progress without a new command."""
        return self.scheduler.has_requests() or self._in_flight is not None or bool(self._releases)

    def statistics(self) -> dict[str, float]:
        """Return counters and gauges of the stage."""
        gauges = {
            "running": float(len(self.scheduler.running)),
            "waiting": float(len(self.scheduler.waiting)),
            "live": float(len(self.scheduler.requests)),
        }
        if self.adapter is not None:
            gauges["save_queue"] = float(len(self.adapter._pending_save_reqs))
        return gauges | {name: float(value) for name, value in self.counters.items()}

    def close(self) -> None:
        """Abort everything, stop the adapter and reclaim what it put; idempotent."""
        self.scheduler.finish_requests(list(self.scheduler.requests), RequestStatus.FINISHED_ABORTED)
        if self.adapter is not None:
            self.adapter.shutdown()
        self.runner.close()

    # -- parts ---------------------------------------------------------------------------------

    def _execute(self, scheduled: SchedulerOutput) -> Step:
        results: Mapping[str, RunnerOutput]
        try:
            results = self.runner.execute(scheduled)
        except Exception as error:
            logger.exception("stage %d: the model failed", self.stage_id)
            reason = f"stage {self.stage_id}: {type(error).__name__}: {error}"
            results = {
                request_id: RunnerOutput(error=reason) for request_id in scheduled.num_scheduled_tokens
            }
        logger.debug("stage %d: ran %s", self.stage_id, scheduled.num_scheduled_tokens)
        self.counters["steps"] += 1
        self.counters["tokens"] += sum(scheduled.num_scheduled_tokens.values())
        return scheduled, results

    def _tell_unsent(self, new: Sequence[StageEvent]) -> None:
        """Mark ends whose chunks are still queued, and report when they are put.

        Whoever hears of an end must know what would be lost with this process (I36).
        """
        if self.adapter is None:
            return
        for request_id in [each for each in self._unsent if not is_sending(self.adapter, each)]:
            del self._unsent[request_id]
            self._events.append(TransferSent(self.stage_id, request_id))
        for event in new:
            if isinstance(event, StageOutput) and event.finished and event.error is None:
                event.unsent = is_sending(self.adapter, event.request_id)
                if event.unsent:
                    self._unsent[event.request_id] = None

    def _answer_releases(self) -> None:
        while self._releases:
            request_ids, since = self._releases[0]
            if time.monotonic() - since < RELEASE_GIVE_UP_S and not all(
                release_is_done(self.adapter, request_id) for request_id in request_ids
            ):
                return
            self._releases.popleft()
            self._events.append(TransferReleased(self.stage_id, request_ids))

    def _emit_error(self, request_id: str, reason: str) -> None:
        self._events.append(
            StageOutput(
                self.stage_id, request_id, finished=True, finish_reason=FinishReason.ERROR, error=reason
            )
        )


def build_request(request: StageRequest) -> Request:
    """Turn what came from the orchestrator into the scheduler's request."""
    return Request(
        request_id=request.request_id,
        external_req_id=request.external_req_id,
        prompt_token_ids=list(request.prompt_token_ids),
        resumable=request.resumable,
        sampling_params=request.sampling_params,
        additional_information=dict(request.additional_information) or None,
        final_stage_id=request.final_stage_id,
    )


def is_sending(adapter: Any, external_req_id: str) -> bool:
    """Tell whether the stream has chunks to put or one in the connector; its last one ends it."""
    return external_req_id in adapter._sender_tokens


def release_is_done(adapter: Any, external_req_id: str) -> bool:
    """Tell whether the save thread has removed what the ended stream left (I50).

    Only then may the id be used again: until then a reader could meet an old object (I38c).
    """
    if adapter is None:
        return True
    return external_req_id not in adapter._pending_releases and not is_sending(adapter, external_req_id)
