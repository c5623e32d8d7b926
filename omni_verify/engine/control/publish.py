"""Fill in the running task's operation record: what every modelled primitive does first."""

from __future__ import annotations

import threading
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.task import Task

__all__ = ["check_timeout", "end_timed", "publish", "publish_timed"]


def publish(kind: str, obj: Any, key: Any = None) -> Any:
    """Publish an operation that is always enabled; returns the running task, None outside a schedule."""
    t = state.current
    if t is not None:
        t.kind = kind
        t.obj = obj
        t.key = key
        t.site = 0
        t.sched.sync(t)
    return t


def publish_timed(t: Task, kind: str, obj: Any, timeout: float | None) -> None:
    """Fill in the record of an operation that may time out after ``timeout`` virtual seconds."""
    t.kind = kind
    t.obj = obj
    t.key = None
    t.site = 0
    if timeout is not None:
        t.deadline = t.sched.now + max(timeout, 0.0)


def end_timed(t: Task) -> bool:
    """Clear the timer of the operation just performed; True when it ended by time-out."""
    out = t.timed_out
    t.deadline = None
    t.timed_out = False
    return out


def check_timeout(timeout: float, *, blocking: bool) -> None:
    """Reject the arguments that CPython's lock rejects."""
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > threading.TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
