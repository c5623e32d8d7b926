"""Modelled locks and semaphores: operations that are enabled while there is something to take.

They follow CPython's `threading` in every outcome that a program can see; what differs is that they
block the *task*, never the OS thread. Outside a schedule nothing can contend, so an acquire succeeds.
"""

from __future__ import annotations

from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.publish import check_timeout, end_timed, publish, publish_timed
from omni_verify.engine.control.task import Task

__all__ = ["BoundedSemaphore", "Lock", "RLock", "Semaphore"]

# Owner of a lock that was acquired outside any schedule.
_OUTSIDE = object()


class Lock:
    """Model of `threading.Lock`: enabled while nobody owns it; any task may release it."""

    __slots__ = ("__weakref__", "owner", "pend", "serial")
    modelled = True

    def __init__(self) -> None:
        self.owner: Any = None
        self.pend: list[Task] = []
        self.serial = state.register(self)

    def reset(self) -> None:
        self.owner = None
        self.pend = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001 - CPython's signature
        t = state.current
        if t is None:
            return self._acquire_outside(blocking)
        if timeout != -1:
            return self._acquire_timed(t, blocking, timeout)
        t.obj = self
        t.key = None
        t.site = 0
        s = t.sched
        if blocking:
            t.kind = "acquire"
            if self.owner is None:
                s.sync(t, self.pend)
            else:
                s.block(t, self.pend)
        else:
            t.kind = "tryacquire"
            s.sync(t)
            if self.owner is not None:
                return False
        self.owner = t
        if self.pend:
            s.disable_all(self.pend)
        return True

    def release(self) -> None:
        t = state.current
        if t is None:
            if self.owner is None:
                raise RuntimeError("release unlocked lock")
            self.owner = None
            return
        t.kind = "release"
        t.obj = self
        t.key = None
        t.site = 0
        s = t.sched
        s.sync(t)
        if self.owner is None:
            raise RuntimeError("release unlocked lock")
        self.owner = None
        if self.pend:
            s.enable_all(self.pend)

    def locked(self) -> bool:
        publish("locked", self)
        return self.owner is not None

    __enter__ = acquire  # the same function: a `with` costs no second frame

    def __exit__(self, kind: object, exc: object, tb: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<modelled {type(self).__name__} {'locked' if self.owner is not None else 'unlocked'}>"

    # CPython's own names for tests and subclasses.
    def acquire_lock(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001 - CPython's signature
        return self.acquire(blocking, timeout)

    def _at_fork_reinit(self) -> None:
        self.reset()

    def _acquire_outside(self, blocking: bool) -> bool:  # noqa: FBT001 - mirrors acquire
        if self.owner is not None and not blocking:
            return False
        self.owner = _OUTSIDE
        return True

    def _acquire_timed(self, t: Task, blocking: bool, timeout: float) -> bool:  # noqa: FBT001 - mirrors acquire
        check_timeout(timeout, blocking=blocking)
        publish_timed(t, "acquire", self, timeout)
        if self.owner is None:
            t.sched.sync(t, self.pend)
        else:
            t.sched.block(t, self.pend)
        if end_timed(t):
            return False
        self.take(t)
        return True

    def take(self, t: Task) -> None:
        """Make ``t`` the owner without a decision; every other pending acquire is disabled."""
        self.owner = t
        if self.pend:
            t.sched.disable_all(self.pend)

    # What Condition needs: give the lock up completely, and take it back.
    def drop(self, t: Task) -> int:
        self.owner = None
        if self.pend:
            t.sched.enable_all(self.pend)
        return 1

    def retake(self, t: Task, depth: int) -> None:
        self.take(t)

    def owned(self) -> bool:
        """As CPython's Condition tests it for a plain lock: somebody holds it."""
        return self.owner is not None


class RLock(Lock):
    """Model of `threading.RLock`; a nested acquire or release by the owner is not a decision point."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0

    def reset(self) -> None:
        super().reset()
        self.depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001 - CPython's signature
        me = state.current
        if self.owner is not None and self.owner is (me or _OUTSIDE):
            self.depth += 1
            return True
        if super().acquire(blocking, timeout):
            self.depth = 1
            return True
        return False

    __enter__ = acquire

    def release(self) -> None:
        if self.owner is None or self.owner is not (state.current or _OUTSIDE):
            if state.current is not None or self.owner is None:
                raise RuntimeError("cannot release un-acquired lock")
        elif self.depth > 1:
            self.depth -= 1
            return
        super().release()
        self.depth = 0

    def drop(self, t: Task) -> int:
        depth, self.depth = self.depth, 0
        super().drop(t)
        return depth

    def retake(self, t: Task, depth: int) -> None:
        super().take(t)
        self.depth = depth

    def owned(self) -> bool:
        return self.owner is not None and self.owner is (state.current or _OUTSIDE)

    # CPython's own names, which a target's condition over this lock may use.
    def _is_owned(self) -> bool:
        return self.owned()

    def _recursion_count(self) -> int:
        return self.depth if self.owned() else 0

    def _release_save(self) -> int:
        if not self.owned():
            raise RuntimeError("cannot release un-acquired lock")
        depth, self.depth = self.depth, 1
        self.release()
        return depth

    def _acquire_restore(self, depth: int) -> None:
        self.acquire()
        self.depth = depth


class Semaphore:
    """Model of `threading.Semaphore`: acquire is enabled while the value is above zero."""

    __slots__ = ("__weakref__", "initial", "pend", "serial", "value")
    modelled = True

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.initial = value
        self.serial = state.register(self)
        self.reset()

    def reset(self) -> None:
        self.value = self.initial
        self.pend: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:  # noqa: FBT001 - CPython's signature
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        t = state.current
        if t is None or not blocking:
            publish("tryacquire", self)
            if self.value == 0:
                return False
            self.value -= 1
            return True
        publish_timed(t, "acquire", self, timeout)
        if self.value:
            t.sched.sync(t, self.pend)
        else:
            t.sched.block(t, self.pend)
        if end_timed(t):
            return False
        self.value -= 1
        if not self.value and self.pend:
            t.sched.disable_all(self.pend)
        return True

    __enter__ = acquire

    def __exit__(self, *exc: object) -> None:
        self.release()

    def release(self, n: int = 1) -> None:
        if n < 1:
            raise ValueError("n must be one or more")
        t = publish("release", self)
        self._check_bound(n)
        was = self.value
        self.value += n
        if not was and self.pend and t is not None:
            t.sched.enable_all(self.pend)

    def _check_bound(self, n: int) -> None:
        """A plain semaphore has no bound."""


class BoundedSemaphore(Semaphore):
    """Model of `threading.BoundedSemaphore`."""

    __slots__ = ()

    def _check_bound(self, n: int) -> None:
        if self.value + n > self.initial:
            raise ValueError("Semaphore released too many times")
