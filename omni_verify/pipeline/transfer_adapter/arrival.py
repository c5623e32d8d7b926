"""How the receive loop sleeps: on arrival hints where the connector has them, on a timer always (I25).

A hint says only that something arrived for this stage. The loop therefore reads the arrival counter, polls
every key, and waits for the counter to move. Hints may be lost, so every wait has a timed fallback. While
hints work the fallback backs off, so that a stage with many parked requests costs next to nothing while
nothing arrives. A peer may send none (another launch, an older release): a chunk that a fallback poll finds
turns the backing off off, until the next hint.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

__all__ = ["ArrivalSnapshot", "ArrivalWait"]

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.001
"""Pause between two passes without progress: always without working hints, at first with them."""

IDLE_WAIT_S = 0.1
"""Pause of a loop that has nothing to poll."""

LONGEST_HINTED_WAIT_S = 0.5
"""Longest pause while hints work: what a single lost hint may cost."""

SLICE_S = 0.04
"""Part of a hinted wait after which a new registration is noticed; only peers send hints.

Unused with a connector whose ``interrupt_wait`` ends a wait: then a registration does that at once.
"""


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
        self._hints_work = True
        self._timed_out = False

    def registered(self) -> None:
        """Count a new registration and end a wait that began before it; the caller holds ``_recv_cond``."""
        self._registrations += 1
        self._adapter._recv_cond.notify()
        interrupt = getattr(self._adapter.connector, "interrupt_wait", None)
        if interrupt is not None:
            interrupt()

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

    def progressed(self) -> None:
        """Poll soon again: the pass found something."""
        if self._timed_out:
            self._hints_work = False
        self._timed_out = False
        self._pause = POLL_INTERVAL_S

    def wait(self, seen: ArrivalSnapshot) -> None:
        """Sleep after a pass without progress."""
        adapter = self._adapter
        self._timed_out = False
        if not adapter._pending_load_reqs or seen.generation is None:
            with adapter._recv_cond:
                if not adapter.stop_event.is_set() and self._registrations == seen.registrations:
                    idle = not adapter._pending_load_reqs
                    adapter._recv_cond.wait(timeout=IDLE_WAIT_S if idle else POLL_INTERVAL_S)
            return
        if self._wait_for_hint(seen):
            self._pause = POLL_INTERVAL_S
        else:
            self._timed_out = True
            self._pause = min(2 * self._pause, LONGEST_HINTED_WAIT_S if self._hints_work else POLL_INTERVAL_S)

    def _wait_for_hint(self, seen: ArrivalSnapshot) -> bool:
        """Wait for the arrival counter to move; True also for a new registration."""
        connector, left = self._adapter.connector, self._pause
        slice_s = self._pause if hasattr(connector, "interrupt_wait") else SLICE_S
        while left > 0:
            if self._adapter.stop_event.is_set() or self._registrations != seen.registrations:
                return True
            try:
                if connector.wait_for_change(seen.generation, timeout=min(left, slice_s)):
                    self._hints_work = True
                    return True
            except Exception as error:
                logger.debug("Waiting for an arrival failed: %s", error)
                with self._adapter._recv_cond:
                    self._adapter._recv_cond.wait(timeout=POLL_INTERVAL_S)
            left -= slice_s
        return self._registrations != seen.registrations
