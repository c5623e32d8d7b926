"""`ControlledRuntime`: a scenario's actors as tasks of the controlled scheduler.

It is made inside the program that is explored (so once an execution) and answers the same calls as the
runtime on real threads; who may pass a point is the strategy's choice instead of a partial order.
"""

from __future__ import annotations

from collections.abc import Callable

from omni_verify.engine.control import state
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.threads import Thread
from omni_verify.errors import UsageError
from omni_verify.trace.event import Trace

__all__ = ["ControlledRuntime"]


class ControlledRuntime:
    """Implements `omni_verify.engine.runtime.Runtime` under the controlled scheduler.

    Attributes:
        trace: events of this execution, in virtual time.

    Raises:
        Mistake: when it is made outside a schedule.
    """

    def __init__(self, prefix: str = "") -> None:
        """Make the runtime of this execution; `prefix` is taken off every key."""
        t = state.current
        if t is None:
            raise Mistake("ControlledRuntime is for a program that runs under Scheduler.run or explore.")
        self._sched: Scheduler = t.sched
        self._prefix = prefix
        self.trace = Trace(clock=lambda: int(self._sched.now * 1e9))
        self._declared: dict[str, Callable[[], object]] = {}
        self._tasks: dict[str, Task] = {}
        self._finished: list[str] = []
        self._failures: dict[str, BaseException] = {}

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Declare an actor; it starts with `run`.

        Raises:
            UsageError: when the name is taken.
        """
        if name in self._declared or name in self._tasks:
            raise UsageError(f"two actors are called {name!r}; actor names are unique within a scenario.")
        self._declared[name] = body

    def run(self) -> None:
        """Start the declared actors that have not started and wait until all actors have ended.

        An exception of an actor ends that actor and is kept in `failures`.
        """
        declared, self._declared = self._declared, {}
        for name, body in declared.items():
            self._tasks[name] = self._sched.spawn(name, self._actor(name, body))
        for task in self._tasks.values():
            self._join(task)

    def _actor(self, name: str, body: Callable[[], object]) -> Callable[[], None]:
        def act() -> None:
            self.trace.append(name, "actor.start")
            try:
                body()
            except Exception as exc:
                self._failures[name] = exc
            self._finished.append(name)
            self.trace.append(name, "actor.end")

        return act

    def _join(self, task: Task) -> None:
        t = state.current
        if not task.done:
            t.kind, t.obj, t.key, t.site = "join", None, task.name, 0
            task.joiners.append(t)
            self._sched.block(t)
            task.joiners.remove(t)

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Arrive at a point: a decision, then the event is recorded."""
        t = state.current
        if t is None:
            return  # a finalizer between two executions
        key = key.removeprefix(self._prefix)
        t.kind, t.obj, t.key, t.site = point, None, key, 0
        t.sched.point(t)
        self.trace.append(t.name, point, key, detail or None)

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float | None = None) -> None:
        """Wait until `predicate()` is true; it must only read, because every decision evaluates it.

        `bound_s` is virtual seconds. When they have passed in vain the execution fails as a livelock. A
        wait that nobody can end any more is a deadlock at once, and without a bound the scheduler's
        ``max_steps`` end one beside which others go on for ever.
        """
        t, s = state.current, self._sched
        t.kind, t.obj, t.key, t.site = "until", None, what, 0
        if bound_s is None:
            s.wait_until(t, predicate)
            return
        limit = s.now + bound_s
        s.wait_until(t, lambda: predicate() or s.now >= limit)
        if not predicate():
            s.give_up(t, what, bound_s)

    def choose(self, n: int, what: str) -> int:
        """A value of ``range(n)`` chosen by the strategy and kept on the tape; 0 is the ordinary one."""
        return self._sched.choose(n, what)

    def name_thread(self, thread: object, name: str) -> None:
        """Say which actor a thread of the target is."""
        if isinstance(thread, Thread):
            thread.name = name
            if thread._task is not None:
                thread._task.name = name

    @property
    def actors(self) -> list[str]:
        """Actors that were declared."""
        return [*self._tasks, *self._declared]

    @property
    def finished(self) -> list[str]:
        """Actors that ran to their end."""
        return list(self._finished)

    @property
    def failures(self) -> dict[str, BaseException]:
        """Exceptions that ended an actor, by actor."""
        return dict(self._failures)

    @property
    def cut(self) -> str:
        """Always empty: an execution that is cut off ends with a failure of the run instead."""
        return ""

    @property
    def stacks(self) -> str:
        """Pending operations of the unfinished tasks."""
        return "\n".join(
            f"{t.name}: {t.kind} {t.key or ''}".rstrip() for t in self._sched.tasks if not t.done
        )
