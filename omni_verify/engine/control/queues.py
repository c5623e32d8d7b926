"""Modelled queues. Each method is one operation, because the real ones hold a mutex throughout.

`put` is enabled while there is room and `get` while there is an item, so a bounded hand-over costs two
decision points instead of the dozen that CPython's lock and conditions would make.
"""

from __future__ import annotations

import heapq
import queue
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from omni_verify.engine.control import state
from omni_verify.engine.control.conditions import Condition
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.locks import Lock
from omni_verify.engine.control.publish import end_timed, publish, publish_timed
from omni_verify.engine.control.task import Task

__all__ = ["LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"]


class Queue:
    """Model of `queue.Queue`; subclasses override ``_init``, ``_qsize``, ``_put``, ``_get`` as usual."""

    modelled = True

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize = maxsize
        self.serial = state.register(self)
        self.mutex = Lock()
        self.reset()

    def reset(self) -> None:
        self.unfinished_tasks = 0
        self.is_shutdown = False
        self._putters: list[Task] = []
        self._getters: list[Task] = []
        self._finished = Condition(self.mutex)
        self._init(self.maxsize)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001 - CPython's
        t = state.current
        if t is None or not block or timeout is not None:
            if not self._pass(t, self._putters, "put", block, timeout, self._has_room):
                raise queue.Full
        else:
            t.kind = "put"
            t.obj = self
            t.key = None
            t.site = 0
            if 0 < self.maxsize <= self._qsize() and not self.is_shutdown:
                t.sched.block(t, self._putters)
            else:
                t.sched.sync(t, self._putters)
        if self.is_shutdown:
            self._refuse()
        empty = self._getters and not self._qsize()
        self._put(item)
        self.unfinished_tasks += 1
        if t is not None:
            if empty:
                t.sched.enable_all(self._getters)
            if self._putters and not self._has_room():
                t.sched.disable_all(self._putters)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001 - CPython's signature
        t = state.current
        if t is None or not block or timeout is not None:
            if not self._pass(t, self._getters, "get", block, timeout, self._has_item):
                raise queue.Empty
        else:
            t.kind = "get"
            t.obj = self
            t.key = None
            t.site = 0
            if self._qsize() or self.is_shutdown:
                t.sched.sync(t, self._getters)
            else:
                t.sched.block(t, self._getters)
        if self.is_shutdown and not self._qsize():
            self._refuse()
        full = bool(self._putters) and not self._has_room()
        item = self._get()
        if t is not None:
            if full:
                t.sched.enable_all(self._putters)
            if self._getters and not self._has_item():
                t.sched.disable_all(self._getters)
        return item

    def _pass(
        self,
        t: Task | None,
        pend: list[Task],
        kind: str,
        block: bool,  # noqa: FBT001 - mirrors put and get
        timeout: float | None,
        test: Callable[[], bool],
    ) -> bool:
        """Publish ``kind`` and return True when it may be performed, False when it came to nothing."""
        if t is None or not block:
            publish("try" + kind, self)
            if test():
                return True
            if block:
                raise Mistake(f"Queue.{kind} outside a schedule would block for ever")
            return False
        if timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        publish_timed(t, kind, self, timeout)
        if test():
            t.sched.sync(t, pend)
        else:
            t.sched.block(t, pend)
        return not end_timed(t)

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        publish("qsize", self)
        return self._qsize()

    def empty(self) -> bool:
        publish("empty", self)
        return not self._qsize()

    def full(self) -> bool:
        publish("full", self)
        return 0 < self.maxsize <= self._qsize()

    def task_done(self) -> None:
        with self.mutex:
            if self.unfinished_tasks <= 0:
                raise ValueError("task_done() called too many times")
            self.unfinished_tasks -= 1
            if not self.unfinished_tasks:
                self._finished.notify_all()

    def join(self) -> None:
        with self.mutex:
            while self.unfinished_tasks:
                self._finished.wait()

    def shutdown(self, immediate: bool = False) -> None:  # noqa: FBT001 - CPython's signature
        t = publish("shutdown", self)
        self.is_shutdown = True
        if immediate:
            while self._qsize():
                self._get()
            self.unfinished_tasks = 0
        if t is not None:
            for pend in (self._putters, self._getters):
                t.sched.enable_all([w for w in pend if w not in t.sched.ready])

    def _refuse(self) -> NoReturn:
        raise getattr(queue, "ShutDown", queue.Empty)

    def _has_room(self) -> bool:
        return self.maxsize <= 0 or self._qsize() < self.maxsize or self.is_shutdown

    def _has_item(self) -> bool:
        return self._qsize() > 0 or self.is_shutdown

    def _init(self, maxsize: int) -> None:
        self.queue: Any = deque()

    def _qsize(self) -> int:
        return len(self.queue)

    def _put(self, item: Any) -> None:
        self.queue.append(item)

    def _get(self) -> Any:
        return self.queue.popleft()


class PriorityQueue(Queue):
    """Model of `queue.PriorityQueue`."""

    def _init(self, maxsize: int) -> None:
        self.queue = []

    def _put(self, item: Any) -> None:
        heapq.heappush(self.queue, item)

    def _get(self) -> Any:
        return heapq.heappop(self.queue)


class LifoQueue(Queue):
    """Model of `queue.LifoQueue`."""

    def _init(self, maxsize: int) -> None:
        self.queue = []

    def _get(self) -> Any:
        return self.queue.pop()


class SimpleQueue(Queue):
    """Model of `queue.SimpleQueue`: no bound, no task accounting."""

    def __init__(self) -> None:
        super().__init__(0)
