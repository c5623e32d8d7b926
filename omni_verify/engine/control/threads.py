"""Modelled threads: started by the program or by the target itself, they become tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from omni_verify.engine.control import state
from omni_verify.engine.control.conditions import Event
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.publish import end_timed, publish
from omni_verify.engine.control.task import Task

__all__ = [
    "Thread",
    "Timer",
    "active_count",
    "current_thread",
    "enumerate",
    "get_ident",
    "get_native_id",
    "local",
    "main_thread",
]

# Identities of tasks; far from any real thread identity so that a mixture is noticed.
_IDENT_BASE = 1_000_000


class Thread(threading.Thread):
    """Model of `threading.Thread`: `start` adds a task, `join` is enabled once that task has ended.

    It derives from the real class so that ``isinstance`` holds, and overrides everything that
    the real one does with an OS thread.
    """

    modelled = True

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        # super().__init__ is left out on purpose: it registers an OS thread that never exists.
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs) if kwargs else {}
        self._task: Task | None = None
        me = state.current
        self.serial = 0 if me is not None else state.register(self)
        if name is None:
            number = me.sched.next_thread_number() if me is not None else 0
            name = f"Thread-{number}"
            if target is not None:
                name = f"{name} ({getattr(target, '__name__', type(target).__name__)})"
        self._name = str(name)
        inherited = bool(me is not None and me.daemon)
        self._daemonic = inherited if daemon is None else daemon

    def reset(self) -> None:
        self._task = None

    def start(self) -> None:
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        t = state.current
        if t is None:
            raise Mistake(
                f"thread {self._name!r} was started outside a schedule while its module is instrumented. "
                "Start it inside the program that is explored."
            )
        s = t.sched
        task = self._task = s.spawn(self._name, self.run, daemon=self._daemonic)
        task.thread = self
        # The decision comes after the start, so that the new thread may run before its starter goes on.
        t.kind = "start"
        t.obj = None
        t.key = self._name
        t.site = 0
        s.mild(t)

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        t = state.current
        if t is None:
            return
        if self._task is t:
            raise RuntimeError("cannot join current thread")
        if timeout is not None:
            t.deadline = t.sched.now + max(timeout, 0.0)
        t.kind = "join"
        t.obj = self
        t.key = None
        t.site = 0
        task = self._task
        if task.done:
            t.sched.mild(t)
        else:
            task.joiners.append(t)
            t.sched.block(t)
            task.joiners.remove(t)
        if timeout is not None:
            end_timed(t)

    def is_alive(self) -> bool:
        publish("is_alive", None, self._name)
        return self._task is not None and not self._task.done

    @property
    def owner(self) -> Task | None:
        """The task that a joiner waits for; the wait-for graph reads it."""
        return self._task

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = str(name)

    @property
    def ident(self) -> int | None:
        return None if self._task is None else _IDENT_BASE + self._task.id

    @property
    def native_id(self) -> int | None:
        return self.ident

    @property
    def daemon(self) -> bool:
        return self._daemonic

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        if self._task is not None:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemonic

    def isDaemon(self) -> bool:
        return self._daemonic

    def setDaemon(self, daemonic: bool) -> None:  # noqa: FBT001 - CPython's name and signature
        self.daemon = daemonic

    def getName(self) -> str:
        return self._name

    def setName(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<modelled Thread {self._name}>"


class Timer(Thread):
    """Model of `threading.Timer` on virtual time."""

    def __init__(
        self,
        interval: float,
        function: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.interval = interval
        self.function = function
        self.args = list(args or [])
        self.kwargs = dict(kwargs or {})
        self.finished = Event()

    def cancel(self) -> None:
        self.finished.set()

    def run(self) -> None:
        self.finished.wait(self.interval)
        if not self.finished.is_set():
            self.function(*self.args, **self.kwargs)
        self.finished.set()


class local:
    """Model of `threading.local`: one attribute dictionary a task."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_arguments", (args, kwargs))
        object.__setattr__(self, "_outside", {})

    def _space(self) -> dict[str, Any]:
        t = state.current
        if t is None:
            outside: dict[str, Any] = object.__getattribute__(self, "_outside")
            return outside
        if t.locals is None:
            t.locals = {}
        space: dict[str, Any] | None = t.locals.get(id(self))
        if space is None:
            space = t.locals[id(self)] = {}
            if type(self).__init__ is not local.__init__:
                args, kwargs = object.__getattribute__(self, "_arguments")
                type(self).__init__(self, *args, **kwargs)
        return space

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = object.__new__(cls)
        local.__init__(made, *args, **kwargs)
        return made

    def __getattr__(self, name: str) -> Any:
        space = local._space(self)
        if name not in space:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return space[name]

    def __setattr__(self, name: str, value: Any) -> None:
        local._space(self)[name] = value

    def __delattr__(self, name: str) -> None:
        space = local._space(self)
        if name not in space:
            raise AttributeError(name)
        del space[name]

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return local._space(self)


def current_thread() -> threading.Thread:
    """The thread object of the running task."""
    t = state.current
    if t is None:
        return threading.current_thread()
    if t.thread is None:
        t.thread = Thread(name="MainThread" if t.id == 0 else t.name, daemon=t.daemon)
        t.thread._task = t
    found: threading.Thread = t.thread
    return found


def main_thread() -> threading.Thread:
    """The thread object of the program itself."""
    t = state.current
    if t is None:
        return threading.main_thread()
    root = t.sched.tasks[0]
    if root.thread is None:
        root.thread = Thread(name="MainThread", daemon=False)
        root.thread._task = root
    found: threading.Thread = root.thread
    return found


def get_ident() -> int:
    """Identity of the running task."""
    t = state.current
    return threading.get_ident() if t is None else _IDENT_BASE + t.id


get_native_id = get_ident


def enumerate() -> list[threading.Thread]:  # noqa: A001 - CPython's name
    """Thread objects of the unfinished tasks."""
    t = state.current
    if t is None:
        return threading.enumerate()
    return [w.thread if w.thread is not None else main_thread() for w in t.sched.tasks if not w.done]


def active_count() -> int:
    """How many tasks are unfinished."""
    return len(enumerate())
