"""The orchestrator's view of a stage, whichever way the stage runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from omni_verify.errors import OmniVerifyError
from omni_verify.pipeline.stages.messages import StageEvent, StageRequest

__all__ = ["StageHandle", "StageUnavailableError"]


class StageUnavailableError(OmniVerifyError):
    """A stage cannot accept a request: it is closed, or it died and is not coming back."""


class StageHandle(Protocol):
    """One stage: submit, abort and release go in, events come out, in order.

    The calls never wait for the stage's work. The orders of one caller are kept: an abort cannot
    overtake the submit that it follows.
    """

    @property
    def stage_id(self) -> int:
        """Position of the stage in the pipeline."""
        ...

    def submit(self, request: StageRequest) -> None:
        """Hand over one request; raises `StageUnavailableError` when the stage cannot take it."""
        ...

    def abort(self, request_ids: Sequence[str]) -> None:
        """Finish the requests as aborted; unknown ids are ignored. No output follows."""
        ...

    def release(self, request_ids: Sequence[str]) -> None:
        """Start to remove the transport objects that are left; a `TransferReleased` answers."""
        ...

    def pump(self) -> bool:
        """Run one tick when the stage lives in the caller's thread; tell whether it did something."""
        ...

    def poll(self) -> list[StageEvent]:
        """Take every event that is there now, oldest first, without waiting."""
        ...

    def set_notify(self, notify: Callable[[], None]) -> None:
        """Have `notify` called, from any thread, whenever `poll` would return something new."""
        ...

    def is_alive(self) -> bool:
        """Tell whether the stage accepts work, or is being restarted and will."""
        ...

    def statistics(self) -> Mapping[str, float]:
        """Return the latest snapshot of the stage's counters and gauges."""
        ...

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop the stage, reclaim what it put and join it; idempotent."""
        ...
