"""What runs a task's Python frames: pooled greenlets (default) or pooled OS threads.

A carrier is a speed switch and never a semantic one: the scheduler takes every decision in the
running task and only asks the carrier to move control. Workers are pooled over executions, because
creating a greenlet or a thread costs more than a whole short schedule.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import greenlet  # type: ignore[import-untyped, unused-ignore]

from omni_verify.engine.control import state
from omni_verify.errors import unknown_value

if TYPE_CHECKING:
    from omni_verify.engine.control.task import Task

__all__ = ["CARRIERS", "Carrier", "GreenletCarrier", "ThreadCarrier", "make_carrier"]

# Runs one task to its end and returns the task to continue with, or None for the hub.
Body = Callable[["Task"], "Task | None"]


class Carrier(Protocol):
    """Moves control between the hub (the caller of `Scheduler.run`) and the tasks."""

    name: str

    def attach(self, task: Task) -> None:
        """Give ``task`` a worker; sets its ``worker``, ``resume`` and ``park``."""

    def enter(self, task: Task, timeout: float | None, progress: Callable[[], int]) -> int | None:
        """From the hub: run ``task`` until somebody calls `leave`.

        Returns:
            None; or the identity of the OS thread that is stuck, when ``progress()`` did not change
            for ``timeout`` seconds.
        """

    def leave(self, task: Task) -> None:
        """From a task that is not finished: give control to the hub."""

    def close(self) -> None:
        """End the pooled workers."""


class _GreenWorker:
    __slots__ = ("glet", "task")

    def __init__(self, carrier: GreenletCarrier) -> None:
        self.task: Any = None
        self.glet = greenlet.greenlet(lambda: self._loop(carrier), parent=carrier.hub)

    def _loop(self, carrier: GreenletCarrier) -> None:
        body, pool = carrier.body, carrier.pool
        while True:
            following = body(self.task)
            self.task = None
            pool.append(self)
            if following is None:
                carrier.hub.switch()
            else:
                following.resume()


class GreenletCarrier:
    """All tasks on the caller's OS thread: a switch costs under a microsecond."""

    name = "greenlet"

    def __init__(self, body: Body) -> None:
        self.body = body
        self.pool: list[_GreenWorker] = []
        self.hub: greenlet.greenlet = greenlet.getcurrent()

    def attach(self, task: Task) -> None:
        worker = self.pool.pop() if self.pool else _GreenWorker(self)
        worker.task = task
        task.worker = worker
        task.resume = worker.glet.switch

    def enter(self, task: Task, timeout: float | None, progress: Callable[[], int]) -> int | None:
        self.hub = greenlet.getcurrent()
        task.resume()
        return None

    def leave(self, task: Task) -> None:
        self.hub.switch()

    def close(self) -> None:
        self.pool.clear()


class _ThreadWorker:
    __slots__ = ("gate", "ident", "task")

    def __init__(self, carrier: ThreadCarrier) -> None:
        self.task: Any = None
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        thread = threading.Thread(target=self._loop, args=(carrier,), name="omni-verify-carrier", daemon=True)
        thread.start()
        self.ident = thread.ident or 0

    def _loop(self, carrier: ThreadCarrier) -> None:
        if carrier.cpu is not None:
            os.sched_setaffinity(0, {carrier.cpu})
        while True:
            self.gate.acquire()
            if self.task is None:
                return
            following = carrier.body(self.task)
            self.task = None
            carrier.pool.append(self)
            if following is None:
                carrier.gate.release()
            else:
                following.resume()


class ThreadCarrier:
    """One pooled OS thread a task; exactly one of them is ever released, so there is no thundering herd."""

    name = "thread"

    def __init__(self, body: Body) -> None:
        self.body = body
        self.pool: list[_ThreadWorker] = []
        self.gate = _thread.allocate_lock()
        self.gate.acquire()
        # Only one task runs at a time. On one CPU a woken thread does not fight for the interpreter lock
        # with the one that is about to park.
        self.cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else None

    def attach(self, task: Task) -> None:
        worker = self.pool.pop() if self.pool else _ThreadWorker(self)
        worker.task = task
        task.worker = worker
        task.resume = worker.gate.release
        task.park = worker.gate.acquire

    def enter(self, task: Task, timeout: float | None, progress: Callable[[], int]) -> int | None:
        task.resume()
        seen = -1
        while not self.gate.acquire(timeout=-1 if timeout is None else timeout):
            now = progress()
            if now == seen:
                running = state.current
                return running.worker.ident if running is not None else 0
            seen = now
        return None

    def leave(self, task: Task) -> None:
        self.gate.release()
        if task.park is not None:
            task.park()

    def close(self) -> None:
        while self.pool:
            self.pool.pop().gate.release()


CARRIERS: dict[str, Callable[[Body], Carrier]] = {"greenlet": GreenletCarrier, "thread": ThreadCarrier}


def make_carrier(name: str, body: Body) -> Carrier:
    """Build the carrier called ``name``.

    Raises:
        UsageError: for an unknown name.
    """
    if name not in CARRIERS:
        raise unknown_value("carrier", name, CARRIERS)
    return CARRIERS[name](body)
