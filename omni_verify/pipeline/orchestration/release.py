"""Release the transport objects of ended requests, one batch in flight for each stage (I50).

A stage may stop reading before its upstream stops writing, so unread objects can outlive a request
that ended well. After all stages are done the orchestrator asks every stage to remove what is left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omni_verify.pipeline.stages.handle import StageHandle, StageUnavailableError
from omni_verify.pipeline.stages.messages import TransferReleased

__all__ = ["MAX_RELEASE_BATCH", "RELEASE_TIMEOUT_S", "ReleaseBroadcast"]

logger = logging.getLogger(__name__)

RELEASE_TIMEOUT_S = 5.0
"""Seconds until an unanswered release is given up; its ids are logged and may be used again."""
MAX_RELEASE_BATCH = 256
"""Most ids in one release call."""


@dataclass(slots=True)
class _StageQueue:
    handle: StageHandle
    waiting: dict[str, None] = field(default_factory=dict)
    in_flight: tuple[str, ...] = ()
    sent_at: float = 0.0
    held: bool = False


class ReleaseBroadcast:
    """Coalesce the ids of ended requests and release them on every chunk-carrying stage.

    An id counts as *releasing* until every stage has answered or has timed out. It must not be
    used again before: the keys carry no generation, so a new consumer could read an old object
    (I38c, W20), and a prefix release could take a new one (W9).
    """

    def __init__(self, handles: Iterable[StageHandle]) -> None:
        self._queues: dict[int, _StageQueue] = {handle.stage_id: _StageQueue(handle) for handle in handles}
        self._open: dict[str, int] = {}

    def is_releasing(self, request_id: str) -> bool:
        """Tell whether some stage has not yet confirmed the release of this id."""
        return request_id in self._open

    def add(self, request_id: str) -> None:
        """Schedule one ended request on every stage; a repeated id is ignored."""
        if request_id in self._open or not self._queues:
            return
        self._open[request_id] = len(self._queues)
        for queue in self._queues.values():
            queue.waiting[request_id] = None

    def pump(self) -> None:
        """Start the next batch wherever none is in flight, and give up batches that were never answered."""
        now = time.monotonic()
        for stage_id, queue in self._queues.items():
            if queue.in_flight and now - queue.sent_at > RELEASE_TIMEOUT_S:
                logger.warning("stage %d did not confirm the release of %s", stage_id, queue.in_flight)
                given_up, queue.in_flight = queue.in_flight, ()
                self._close(given_up)
            if queue.waiting and not queue.in_flight and not queue.held:
                self._send(queue, now)

    def confirm(self, event: TransferReleased) -> None:
        """Take a stage's answer; an answer to a batch that was given up counts for nothing."""
        queue = self._queues.get(event.stage_id)
        if queue is not None and event.request_ids == queue.in_flight:
            queue.in_flight = ()
            self._close(event.request_ids)

    def hold_stage(self, stage_id: int) -> None:
        """Put back what a dead stage owes until its successor is ready to answer."""
        queue = self._queues.get(stage_id)
        if queue is not None:
            queue.waiting = dict.fromkeys((*queue.in_flight, *queue.waiting))
            queue.in_flight, queue.held = (), True

    def resume_stage(self, stage_id: int) -> None:
        """Let a stage take releases again."""
        queue = self._queues.get(stage_id)
        if queue is not None:
            queue.held = False

    def drop_stage(self, stage_id: int) -> None:
        """Forget what a stage owes that will never come back."""
        queue = self._queues.pop(stage_id, None)
        if queue is not None:
            self._close((*queue.in_flight, *queue.waiting))

    def idle(self) -> bool:
        """Tell whether nothing waits for a release."""
        return not self._open

    def statistics(self) -> Mapping[str, float]:
        """Return the number of ids that wait for some stage."""
        return {"releases_pending": float(len(self._open))}

    def _send(self, queue: _StageQueue, now: float) -> None:
        batch = tuple(queue.waiting)[:MAX_RELEASE_BATCH]
        for request_id in batch:
            del queue.waiting[request_id]
        queue.in_flight, queue.sent_at = batch, now
        try:
            queue.handle.release(batch)
        except StageUnavailableError:
            queue.in_flight = ()
            self._close(batch)

    def _close(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            left = self._open.get(request_id, 0) - 1
            if left > 0:
                self._open[request_id] = left
            else:
                self._open.pop(request_id, None)
