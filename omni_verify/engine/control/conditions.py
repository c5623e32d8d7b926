"""Modelled conditions, events and barriers: their waiters go on when another task lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.locks import Lock, RLock
from omni_verify.engine.control.publish import end_timed, publish, publish_timed
from omni_verify.engine.control.task import Task

__all__ = ["Barrier", "Condition", "Event"]


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

    def wake(self, w: Task) -> None:
        """Waiter ``w`` wakes although nobody notified it; `wait` cannot tell the difference."""
        self.waiters.remove(w)
        w.waiting = None
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


class Barrier(threading.Barrier):
    """CPython's own barrier on a modelled condition."""

    def __init__(
        self, parties: int, action: Callable[[], None] | None = None, timeout: float | None = None
    ) -> None:
        super().__init__(parties, action, timeout)
        self._cond: Any = Condition(Lock())
