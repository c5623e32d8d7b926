"""Modelled locks, conditions, events, semaphores and barriers.

They follow CPython's `threading` in every outcome that a program can see; what differs is that they
block the *task*, never the OS thread. Outside a schedule nothing can contend, so an acquire succeeds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.task import Task

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]

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

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
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

    def _is_owned(self) -> bool:
        return self.owned()


class Condition:
    """Model of `threading.Condition`: waiters wake in the order in which they waited, as in CPython.

    ``lost`` keeps the last notify that found nobody waiting, for the explanation of a lost wakeup.
    """

    # ``__dict__``: a harness patches methods on instances, as it does on the real class.
    __slots__ = ("__dict__", "__weakref__", "acquire", "lock", "lost", "release", "serial", "waiters")
    modelled = True

    def __init__(self, lock: Any = None) -> None:
        if lock is None:
            lock = RLock()
        if not isinstance(lock, Lock):
            raise Mistake(
                f"a controlled Condition got a lock of type {type(lock).__module__}.{type(lock).__name__}, "
                "which the engine does not control. Create the lock in an instrumented module."
            )
        self.lock = lock
        self.acquire = lock.acquire
        self.release = lock.release
        self.serial = state.register(self)
        self.reset()

    def reset(self) -> None:
        self.waiters: list[Task] = []
        self.lost: tuple[int, str] | None = None

    def __enter__(self) -> bool:
        return self.lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self.lock.release()

    def _is_owned(self) -> bool:
        return self.lock.owned()

    def wait(self, timeout: float | None = None) -> bool:
        if not self.lock.owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        t = publish("wait", self)
        if t is None:
            raise Mistake("Condition.wait outside a schedule would block for ever")
        s = t.sched
        depth = self.lock.drop(t)
        publish_timed(t, "wake", self, timeout)
        t.waiting = self
        self.waiters.append(t)
        s.block(t)
        # A notify or the timer has turned the operation into a pending acquire of the lock.
        notified = t.waiting is None
        t.waiting = None
        self.lock.pend.remove(t)
        self.lock.retake(t, depth)
        return notified

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        deadline: float | None = None
        result = predicate()
        while not result:
            if timeout is not None:
                now = state.current.sched.now if state.current is not None else 0.0
                deadline = now + timeout if deadline is None else deadline
                if deadline - now <= 0:
                    break
                self.wait(deadline - now)
            else:
                self.wait()
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        if not self.lock.owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        t = publish("notify", self)
        if t is None:
            return
        if not self.waiters:
            self.lost = (t.sched.steps, t.name)
            return
        self.lost = None  # whoever waits from now on has seen what this one announces
        woken, self.waiters = self.waiters[:n], self.waiters[n:]
        for w in woken:
            w.waiting = None
            self._reacquire(w)

    def notify_all(self) -> None:
        self.notify(len(self.waiters) or 1)

    notifyAll = notify_all

    def expire(self, w: Task) -> None:
        """The timer of waiter ``w`` has fired."""
        self.waiters.remove(w)
        self._reacquire(w)

    def _reacquire(self, w: Task) -> None:
        if w.deadline is not None:
            w.sched.untime(w)
            w.deadline = None
        w.kind = "reacquire"
        w.obj = self.lock
        self.lock.pend.append(w)
        if self.lock.owner is None:
            w.sched.enable(w)

    def __repr__(self) -> str:
        return f"<modelled Condition, {len(self.waiters)} waiting>"


class Event:
    """Model of `threading.Event`: `set` lets every present waiter go, even when `clear` follows at once."""

    __slots__ = ("__dict__", "__weakref__", "flag", "serial", "waiters")
    modelled = True

    def __init__(self) -> None:
        self.serial = state.register(self)
        self.reset()

    def reset(self) -> None:
        self.flag = False
        self.waiters: list[Task] = []

    def is_set(self) -> bool:
        publish("is_set", self)
        return self.flag

    isSet = is_set

    def set(self) -> None:
        t = publish("set", self)
        self.flag = True
        if self.waiters:
            woken, self.waiters = self.waiters, []
            for w in woken:
                w.waiting = None
                if t is not None:
                    t.sched.enable(w)

    def clear(self) -> None:
        publish("clear", self)
        self.flag = False

    def wait(self, timeout: float | None = None) -> bool:
        if self.flag:
            publish("wait", self)
            if self.flag:
                return True
        t = state.current
        if t is None:
            return self.flag
        publish_timed(t, "wait", self, timeout)
        t.waiting = self
        self.waiters.append(t)
        t.sched.block(t)
        t.waiting = None
        return not end_timed(t) or self.flag

    def expire(self, w: Task) -> None:
        """The timer of waiter ``w`` has fired."""
        self.waiters.remove(w)
        w.sched.fire(w)

    def __repr__(self) -> str:
        return f"<modelled Event {'set' if self.flag else 'unset'}>"


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


class Barrier(threading.Barrier):
    """CPython's own barrier on a modelled condition."""

    def __init__(
        self, parties: int, action: Callable[[], None] | None = None, timeout: float | None = None
    ) -> None:
        super().__init__(parties, action, timeout)
        self._cond: Any = Condition(Lock())


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
