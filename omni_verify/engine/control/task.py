"""A task: one controlled thread of the program, with the operation that it is about to perform."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omni_verify.engine.control.scheduler import Scheduler

__all__ = ["Task"]


class Task:
    """One controlled thread.

    The *operation record* (``kind``, ``obj``, ``key``, ``site``) is published before the operation
    is performed; strategies, deadlock reports and partial-order reduction read it and nothing else.

    Attributes:
        id: spawn order within the execution, 0 for the program itself.
        kind: operation, for example ``"acquire"`` or ``"load"``.
        obj: the object operated on, or None.
        key: attribute name, point key or other detail that narrows the location.
        site: index into ``access_sites.SITES`` for shared accesses, else 0.
        deadline: virtual time in seconds at which a blocked operation times out, or None.
        timed_out: whether that timer has fired for the current operation.
        waiting: the primitive that must forget this task when its timer fires, or None.
        predicate: for ``until``: the side-effect-free test that enables the task, or None.
        prio: scratch value for priority strategies, None until the strategy first sees the task.
    """

    __slots__ = (
        "aborts",
        "daemon",
        "deadline",
        "done",
        "fn",
        "id",
        "joiners",
        "key",
        "kind",
        "locals",
        "name",
        "obj",
        "park",
        "predicate",
        "prio",
        "resume",
        "sched",
        "site",
        "thread",
        "timed_out",
        "waiting",
        "worker",
    )

    def __init__(
        self, sched: Scheduler, ident: int, name: str, fn: Callable[[], Any], *, daemon: bool
    ) -> None:
        self.sched = sched
        self.id = ident
        self.name = name
        self.fn = fn
        self.daemon = daemon
        self.kind: str = "begin"
        self.obj: Any = None
        self.key: Any = None
        self.site = 0
        self.done = False
        self.deadline: float | None = None
        self.timed_out = False
        self.waiting: Any = None
        self.predicate: Callable[[], Any] | None = None
        self.prio: Any = None
        self.joiners: list[Task] = []
        self.locals: dict[int, dict[str, Any]] | None = None
        self.thread: Any = None
        self.worker: Any = None
        self.resume: Callable[[], Any] = _unassigned
        self.park: Callable[[], Any] | None = None
        self.aborts = 0

    def __repr__(self) -> str:
        return f"<task {self.id} {self.name}: {self.kind}>"


def _unassigned() -> None:
    raise AssertionError("a task was resumed before a carrier took it")
