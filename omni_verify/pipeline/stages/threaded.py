"""A stage in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from omni_verify.pipeline.stages.core import StageCore
from omni_verify.pipeline.stages.handle import StageUnavailableError
from omni_verify.pipeline.stages.loop import StageLoop
from omni_verify.pipeline.stages.messages import StageDied, StageEvent, StageRequest

__all__ = ["ThreadedStage"]


class ThreadedStage:
    """See `StageHandle`; the orchestrator's thread posts commands, the stage's thread does the rest."""

    def __init__(self, core: StageCore) -> None:
        self._core = core
        self._events: deque[StageEvent] = deque()
        self._statistics: Mapping[str, float] = {}
        self._notify: Callable[[], None] = lambda: None
        self._loop = StageLoop(core, self._publish, self._keep_statistics)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"omni-stage-{core.stage_id}", daemon=True)
        self._thread.start()

    @property
    def stage_id(self) -> int:
        """Position of the stage in the pipeline."""
        return self._core.stage_id

    @property
    def core(self) -> StageCore:
        """The stage itself, for callers that audit its state when it is quiet."""
        return self._core

    def submit(self, request: StageRequest) -> None:
        """Queue the admission of a request."""
        if not self.is_alive():
            raise StageUnavailableError(f"stage {self.stage_id} is closed")
        self._loop.post(lambda core: core.add(request))

    def abort(self, request_ids: Sequence[str]) -> None:
        """Queue the end of requests."""
        ids = tuple(request_ids)
        self._loop.post(lambda core: core.abort(ids))

    def release(self, request_ids: Sequence[str]) -> None:
        """Queue a release."""
        ids = tuple(request_ids)
        self._loop.post(lambda core: core.release(ids))

    def pump(self) -> bool:
        """Do nothing: the stage's own thread works."""
        return False

    def poll(self) -> list[StageEvent]:
        """Take what the stage has published."""
        events: list[StageEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def set_notify(self, notify: Callable[[], None]) -> None:
        """Call back after each publication."""
        self._notify = notify

    def is_alive(self) -> bool:
        """Tell whether the thread runs and is not being stopped."""
        return not self._closed and self._thread.is_alive()

    def statistics(self) -> Mapping[str, float]:
        """Return the latest snapshot."""
        return self._statistics

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop the thread, which closes the stage, and join it; idempotent."""
        self._closed = True
        self._loop.stop()
        self._loop.wake()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._loop.run()
        finally:
            if not self._closed:
                self._publish([StageDied(self.stage_id, "its thread ended", permanent=True)])

    def _publish(self, events: list[StageEvent]) -> None:
        self._events.extend(events)
        self._notify()

    def _keep_statistics(self, statistics: dict[str, float]) -> None:
        self._statistics = statistics
