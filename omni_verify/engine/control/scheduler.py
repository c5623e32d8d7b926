"""The controlled scheduler: one task runs at a time, and a strategy decides which.

*Publish, then pick.* A task publishes its next operation and only then asks who goes on (`Turns`), so the
decision always sees what every task is about to do; its options are the `Agenda`'s.

The *tape* lists the choices. A thread choice is 0 for "continue the current task"; the others count
the remaining options by ascending id. Moments with one option leave no entry. Data choices
(`choose`) are entries of the same tape.
"""

from __future__ import annotations

import _thread
import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omni_verify.engine.control import state
from omni_verify.engine.control.carriers import make_carrier
from omni_verify.engine.control.failure import Abandon, Failure, ScheduleAbort, from_exception
from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.turns import GRANULARITIES, Turns
from omni_verify.engine.control.waits import explain_block
from omni_verify.engine.control.watchdog import describe_block, uncontrolled_threads

if TYPE_CHECKING:
    from omni_verify.engine.strategies.base import Strategy

__all__ = ["GRANULARITIES", "Scheduler"]


class Scheduler(Turns):
    """Run a program many times, each time under the choices of a strategy.

    Args:
        carrier: ``"greenlet"`` or ``"thread"``; the same tape gives the same run on both.
        granularity: ``"connector"``, ``"sync"`` or ``"access"``.
        max_steps: operations after which the run goes on under a fair choice for as many again, and for
            more while virtual time passes; a program that is still not finished then is a livelock.
        early_timers: how many timers may fire while somebody can still run, in one execution.
        spurious_wakeups: how many waiters of a condition may wake without a notify, in one execution.
        leaked_daemons_fail: whether a daemon thread that is alive at the end is a failure.

    One scheduler belongs to one OS thread; `close` ends its pooled workers.
    """

    __slots__ = ("leaked_daemons_fail",)

    def __init__(
        self,
        carrier: str = "greenlet",
        *,
        granularity: str = "sync",
        max_steps: int = 20_000,
        early_timers: int = 2,
        spurious_wakeups: int = 0,
        leaked_daemons_fail: bool = False,
    ) -> None:
        super().__init__(granularity, max_steps, early_timers, spurious_wakeups)
        self.carrier = make_carrier(carrier, self._body)
        self.leaked_daemons_fail = leaked_daemons_fail
        self.strategy = None
        self._reset()

    def run(
        self,
        program: Callable[[], Any],
        strategy: Strategy,
        *,
        trace: bool = False,
        timeout: float | None = None,
    ) -> Run:
        """Execute ``program`` once under ``strategy`` (on which ``new_execution`` was called).

        Args:
            program: body of task 0; threads that it starts through modelled primitives are controlled.
            trace: record every operation (slower; a search replays its failures with it).
            timeout: seconds of real time without an operation after which a run on OS threads is given up;
                on greenlets `watchdog.watch` does this.
        """
        self._reset()
        state.forget_serials()
        if state.persistent:
            for primitive in tuple(state.persistent):
                primitive.reset()
        self.pick, self.uniform = strategy.pick, strategy.uniform
        self.strategy = strategy
        self.observe = strategy.observe
        if trace:
            self.trace = []
        self.watched = trace or self.observe is not None
        collecting = gc.isenabled()
        gc.disable()
        try:
            root = self.spawn("main", program)
            state.current = root
            before = _thread._count()
            self.running = True
            stuck = self.carrier.enter(root, timeout, self._progress)
            if stuck is None:
                self._unwind()
            else:
                # The blocked thread cannot be taken back: its carrier is left to it.
                self.uncontrolled.append(describe_block(stuck, timeout or 0.0))
                self.abandoned = True
                self.carrier = make_carrier(self.carrier.name, self._body)
            if _thread._count() > before and self.carrier.name != "thread":
                self.uncontrolled += uncontrolled_threads()
        finally:
            self.running = False
            self.runs += 1
            state.current = None
            if collecting:
                gc.enable()
        return Run.of(self)

    def forget(self) -> None:
        """Let go of the last program, so that the scheduler can be kept for another one."""
        self._reset()
        self.strategy = None

    def close(self) -> None:
        """End the pooled workers."""
        self.carrier.close()

    def spawn(self, name: str, fn: Callable[[], Any], *, daemon: bool = False) -> Task:
        """Add a task whose first operation is ``begin``; it runs when it is chosen."""
        task = Task(self, len(self.tasks), name, fn, daemon=daemon)
        self.tasks.append(task)
        self.ready.append(task)
        if not daemon:
            self.alive += 1
        self.carrier.attach(task)
        return task

    def _body(self, task: Task) -> Task | None:
        """Run one task on its worker and say who continues; None hands control to the hub."""
        try:
            if not self.aborting:
                if self.watched:
                    self._record(task)
                task.fn()
        except Abandon:
            self.abandoned = True
        except ScheduleAbort:
            pass
        except SystemExit:
            pass  # as in `threading`: it ends the thread silently
        except BaseException as exc:
            if not self.aborting and self.failure is None:
                self.failure = from_exception(exc, task.name)
        task.done = True
        task.kind, task.obj, task.key = "end", None, None
        # No cycle through the thread object: a search runs thousands of executions without a collection.
        task.fn, task.thread = _ended, None
        if self.aborting or self.abandoned or self.failure is not None:
            return None
        self.ready.remove(task)
        for joiner in task.joiners:
            self.enable(joiner)
        if not task.daemon:
            self.alive -= 1
            if not self.alive:
                return None  # only daemons are left: the interpreter would exit here
        try:
            following = self._next(task)
        except Abandon:
            self.abandoned = True
            return None
        if following is None:
            self.failure = explain_block(self)
        state.current = following
        return following

    def _unwind(self) -> None:
        """Abort what is left, so that ``finally`` blocks run and no worker keeps a frame."""
        self.leftover = [t for t in self.tasks if not t.done]
        if self.failure is None and self.leaked_daemons_fail and self.leftover:
            names = ", ".join(t.name for t in self.leftover)
            self.failure = Failure(
                "leaked-thread", f"leaked-thread: {names}", f"still alive at the end: {names}", names
            )
        self.strategy.left_over(self.leftover)
        self.aborting = True
        if not self.leftover:
            return
        self._only_abort()
        for task in self.tasks:  # an aborted task may still start others
            if not task.done:
                state.current = task
                self.carrier.enter(task, None, self._progress)
        self._take_turns()


def _ended() -> None:
    """Body of a task that is over."""
