"""Waiting for descriptors: `select.poll` and `select.select` on virtual time.

The kernel is asked without waiting. A wait that would block becomes a task that is enabled once the
kernel says "ready", or once its timer fires.
"""

from __future__ import annotations

import select as real_select
from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.publish import end_timed, publish_timed

__all__ = ["poll", "select"]


class _Poll:
    """Model of the object that `select.poll` returns; registrations are the real one's."""

    def __init__(self) -> None:
        self._real = real_select.poll()
        self.register = self._real.register
        self.modify = self._real.modify
        self.unregister = self._real.unregister

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait at most ``timeout`` milliseconds of virtual time; None or a negative number is for ever."""
        if state.current is None:
            return self._real.poll(timeout)
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        found: list[tuple[int, int]] = _wait(lambda: self._real.poll(0), seconds)
        return found


def poll() -> _Poll:
    """Model of `select.poll`."""
    return _Poll()


def select(rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None) -> Any:
    """Model of `select.select`; ``timeout`` is virtual seconds."""
    if state.current is None:
        return real_select.select(rlist, wlist, xlist, timeout)
    ready = _wait(
        lambda: [found] if any(found := real_select.select(rlist, wlist, xlist, 0)) else [], timeout
    )
    return ready[0] if ready else ([], [], [])


def _wait(attempt: Callable[[], list[Any]], timeout: float | None) -> list[Any]:
    """Try, and else block until another try would succeed or the time is over."""
    t = state.current
    publish_timed(t, "poll", None, timeout)
    t.sched.sync(t)
    found = attempt()
    if not found and timeout != 0:
        t.sched.wait_until(t, attempt)
        found = attempt()
    end_timed(t)
    return found
