"""A stage that lives in its caller's thread and works when it is pumped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from omni_verify.pipeline.stages.core import StageCore
from omni_verify.pipeline.stages.handle import StageUnavailableError
from omni_verify.pipeline.stages.messages import StageEvent, StageRequest

__all__ = ["InlineStage"]


class InlineStage:
    """See `StageHandle`; nothing here is safe for several threads."""

    def __init__(self, core: StageCore) -> None:
        self._core, self._closed = core, False

    @property
    def stage_id(self) -> int:
        """Position of the stage in the pipeline."""
        return self._core.stage_id

    @property
    def core(self) -> StageCore:
        """The stage itself, for callers that audit its state."""
        return self._core

    def submit(self, request: StageRequest) -> None:
        """Admit a request at once."""
        if self._closed:
            raise StageUnavailableError(f"stage {self.stage_id} is closed")
        self._core.add(request)

    def abort(self, request_ids: Sequence[str]) -> None:
        """End requests at once."""
        self._core.abort(request_ids)

    def release(self, request_ids: Sequence[str]) -> None:
        """Start a release; a later tick answers."""
        self._core.release(request_ids)

    def pump(self) -> bool:
        """Run one tick."""
        return not self._closed and self._core.tick()

    def poll(self) -> list[StageEvent]:
        """Take the events of the ticks so far."""
        return self._core.take_events()

    def set_notify(self, notify: Callable[[], None]) -> None:
        """Ignore the callback: events appear only while the caller itself pumps."""

    def is_alive(self) -> bool:
        """Tell whether the stage is open."""
        return not self._closed

    def statistics(self) -> Mapping[str, float]:
        """Return the stage's figures of this moment."""
        return self._core.statistics()

    def close(self, timeout_s: float = 10.0) -> None:
        """Close the stage; idempotent."""
        if not self._closed:
            self._closed = True
            self._core.close()
