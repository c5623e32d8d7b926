"""The one process-wide cell that tells a modelled primitive who is running.

Every modelled primitive reads ``current`` first. ``None`` means that no schedule is running (import
time, a finalizer between two schedules): the primitive then works uncontended, as a plain flag.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["Resettable", "current", "forget_serials", "persistent", "register", "unobserved"]

# The running task (a `task.Task`). Typed Any because primitives read it on their hottest line and
# a cast there would be noise; the scheduler is the only writer.
current: Any = None

_serial = 0
_outside = 0


class Resettable(Protocol):
    """A primitive that outlives one schedule and can go back to its first state."""

    def reset(self) -> None: ...


# Primitives made outside any schedule (module globals, class attributes). The scheduler resets them
# before each execution, so that a lock left held by an aborted task does not poison the next one.
persistent: weakref.WeakSet[Any] = weakref.WeakSet()


def forget_serials() -> None:
    """Start numbering again; called at the start of every execution."""
    global _serial
    _serial = 0


def register(primitive: Resettable) -> int:
    """Number ``primitive`` by creation order, so that its name is the same in every replay.

    One made outside a schedule gets a negative number and is reset before each execution.
    """
    global _serial, _outside
    if current is None:
        persistent.add(primitive)
        _outside -= 1
        return _outside
    _serial += 1
    return _serial


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Look at modelled objects without a decision in between: what an audit sees is one moment."""
    global current
    task, current = current, None
    try:
        yield
    finally:
        current = task
