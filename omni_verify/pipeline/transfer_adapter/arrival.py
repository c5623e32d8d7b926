"""How the receive loop sleeps: on arrival hints where the connector has them, on a timer always (I25).

A hint says only that something arrived for this stage. The loop therefore reads the arrival counter, polls
every key, and waits for the counter to move. Hints may be lost, so every wait has a timed fallback. With
hints available the fallback backs off, so that a stage with many parked requests costs next to nothing while
nothing arrives.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

__all__ = ["ArrivalSnapshot", "ArrivalWait"]

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.001
"""Pause between two passes without progress: always without hints, at first with them."""

LONGEST_WAIT_S = 0.1
"""Longest pause with hints, and of a loop that has nothing to poll: the delay that a lost hint may cost."""

SLICE_S = 0.005
"""Part of a hinted wait after which a new registration is noticed; only peers send hints."""


class ArrivalSnapshot(NamedTuple):
    """What was known before a pass: the arrival counter (None: no hints) and the registrations."""

    generation: int | None
    registrations: int


class ArrivalWait:
    """Sleep of one receive loop; used by R, except :meth:`registered`, which S calls."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._registrations = 0
        self._pause = POLL_INTERVAL_S

    def registered(self) -> None:
        """Count a new registration, so that a wait that began before it ends within :data:`SLICE_S`."""
        self._registrations += 1

    def snapshot(self) -> ArrivalSnapshot:
        """Read the counters; to be called before the pass that the following :meth:`wait` belongs to."""
        read = getattr(self._adapter.connector, "get_wakeup_generation", None)
        generation: int | None = None
        if read is not None and self._adapter._pending_load_reqs:
            try:
                generation = read()
            except Exception as error:
                logger.debug("No arrival hints: %s", error)
        return ArrivalSnapshot(generation, self._registrations)

    def reset(self) -> None:
        """Poll soon again: something arrived."""
        self._pause = POLL_INTERVAL_S

    def wait(self, seen: ArrivalSnapshot) -> None:
        """Sleep after a pass without progress."""
        adapter = self._adapter
        if not adapter._pending_load_reqs or seen.generation is None:
            with adapter._recv_cond:
                if not adapter.stop_event.is_set() and self._registrations == seen.registrations:
                    idle = not adapter._pending_load_reqs
                    adapter._recv_cond.wait(timeout=LONGEST_WAIT_S if idle else POLL_INTERVAL_S)
            return
        if self._wait_for_hint(seen, self._pause):
            self.reset()
        else:
            self._pause = min(2 * self._pause, LONGEST_WAIT_S)

    def _wait_for_hint(self, seen: ArrivalSnapshot, pause: float) -> bool:
        left = pause
        while left > 0 and not self._adapter.stop_event.is_set():
            if self._registrations != seen.registrations:
                return True
            piece = min(left, SLICE_S)
            try:
                if self._adapter.connector.wait_for_change(seen.generation, timeout=piece):
                    return True
            except Exception as error:
                logger.debug("Waiting for an arrival failed: %s", error)
                with self._adapter._recv_cond:
                    self._adapter._recv_cond.wait(timeout=piece)
            left -= piece
        return False
