"""The controlled scheduler: one task runs at a time, and a strategy decides which.

*Publish, then pick.* A task publishes its next operation and only then asks who goes on, so the
decision always sees what every task is about to do; its options are the `Agenda`'s. A decision is taken
in the running task, so "continue" costs no switch.

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
from omni_verify.engine.control.agenda import Agenda, fair_pick
from omni_verify.engine.control.carriers import make_carrier
from omni_verify.engine.control.failure import Abandon, Failure, ScheduleAbort, from_exception
from omni_verify.engine.control.run import Run, Step
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.waits import explain_block, label, source_line
from omni_verify.engine.control.watchdog import describe_block, uncontrolled_threads
from omni_verify.errors import unknown_value

if TYPE_CHECKING:
    from omni_verify.engine.strategies.base import Strategy

__all__ = ["GRANULARITIES", "Scheduler"]

# Which operations are decision points. A blocked task always lets others run, whatever the granularity.
GRANULARITIES = ("connector", "sync", "access")
# An aborted task that swallows this many aborts is left behind instead of unwound.
_ABORT_PATIENCE = 200
# How many times the fair choice gets `max_steps` more because virtual time has passed meanwhile.
_PATIENCE = 10


class Scheduler(Agenda):
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

    __slots__ = (
        "_access",
        "_mild",
        "_sync",
        "abandoned",
        "aborting",
        "access",
        "alive",
        "carrier",
        "failure",
        "fair",
        "granularity",
        "leaked_daemons_fail",
        "leftover",
        "limit",
        "looked_at",
        "max_steps",
        "mild",
        "names",
        "observe",
        "patience",
        "point",
        "running",
        "runs",
        "steps",
        "strategy",
        "sync",
        "tape_end",
        "thread_number",
        "trace",
        "uncontrolled",
        "uniform",
        "watched",
    )

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
        if granularity not in GRANULARITIES:
            raise unknown_value("granularity", granularity, GRANULARITIES)
        super().__init__(early_timers, spurious_wakeups)
        self.carrier = make_carrier(carrier, self._body)
        self.runs = 0
        self.running = False
        self.granularity = granularity
        self.max_steps = max_steps
        self.leaked_daemons_fail = leaked_daemons_fail
        # `sync` and `access` are how primitives and rewritten accesses publish an enabled operation.
        self.point = self.step
        self._sync: Callable[..., None] = self.step if granularity != "connector" else self._pass
        self._access: Callable[..., None] = self.step if granularity == "access" else self._pass
        # Operations that disturb nobody (a thread starts, an ended one is joined) matter only because of the
        # unpublished accesses around them, and with granularity `access` there are none.
        self._mild: Callable[..., None] = self.step if granularity == "sync" else self._pass
        self.sync, self.access, self.mild = self._sync, self._access, self._mild
        self.strategy: Any = None  # the Strategy of the running execution
        self._reset()

    def _progress(self) -> int:
        return self.steps

    def _reset(self) -> None:
        self._clear()
        self.uniform: Callable[[], float] | None = None
        self.steps = 0
        self.limit = self.max_steps
        self.alive = 0  # unfinished tasks that are not daemons
        self.fair = False
        self.patience = 0
        self.looked_at = 0.0
        self.aborting = False
        self.failure: Failure | None = None
        self.trace: list[Step] | None = None
        self.observe: Callable[[Task], None] | None = None
        self.watched = False  # every performed operation is traced or observed
        self.abandoned = False
        self.uncontrolled: list[str] = []
        self.leftover: list[Task] = []
        self.tape_end = 0
        self.names: dict[str, Any] = {}
        self.thread_number = 0

    # -- one execution ---------------------------------------------------------------------------

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
        self.sync = self.access = self.mild = self.point = self._abort_step
        for task in self.tasks:  # an aborted task may still start others
            if not task.done:
                state.current = task
                self.carrier.enter(task, None, self._progress)
        self.sync, self.access, self.mild, self.point = self._sync, self._access, self._mild, self.step

    def next_thread_number(self) -> int:
        """Number for the default name of a thread, counted anew in every execution."""
        self.thread_number += 1
        return self.thread_number

    # -- operations ------------------------------------------------------------------------------

    def step(self, t: Task, pend: list[Task] | None = None) -> None:
        """Return when ``t``, which has published an enabled operation, is chosen to perform it.

        ``pend`` is the primitive's list of tasks that another operation on it may disable; ``t`` is
        on it only while somebody else runs.
        """
        steps = self.steps = self.steps + 1
        if steps > self.limit:
            self._over_limit(t)
        ready = self.ready
        if self.special:
            following = self._choose(t)
            assert following is not None
        else:
            n = len(ready)
            if n == 1:
                if self.watched:
                    self._record(t)
                return
            draw = self.uniform
            i = self.pick(ready, t, n) if draw is None else int(draw() * n)
            following = ready[i]
            if following is t:
                self.tape.append(0)
                if self.watched:
                    self._record(t)
                return
            # As `encode`: the tasks are sorted by id.
            self.tape.append(i if following.id > t.id else i + 1)
        if following is not t:
            if pend is not None:
                pend.append(t)
            state.current = following
            following.resume()
            if t.park is not None:
                t.park()
            if self.aborting:
                raise ScheduleAbort
            if pend is not None:
                pend.remove(t)
        if self.watched:
            self._record(t)

    def block(self, t: Task, pend: list[Task] | None = None) -> None:
        """Return when ``t``, whose published operation is not enabled, has become enabled and is chosen.

        With ``t.deadline`` set the task is also enabled when its timer fires (``t.timed_out``).
        """
        self.steps += 1
        if self.steps > self.limit:
            self._over_limit(t)
        if self.aborting:
            self._abort_step(t)
        self.ready.remove(t)
        if pend is not None:
            pend.append(t)
        if t.deadline is not None:
            self._add_timed(t)
        following = self._next(t)
        if following is not t:
            if following is None:
                self.failure = explain_block(self)
                self._to_hub(t)
            else:
                state.current = following
                following.resume()
                if t.park is not None:
                    t.park()
            if self.aborting:
                raise ScheduleAbort
        if pend is not None:
            pend.remove(t)
        if self.watched:
            self._record(t)

    def _next(self, t: Task) -> Task | None:
        """Who goes on in the place of ``t``, which is not ready; None when nobody ever can."""
        ready = self.ready
        n = len(ready)
        if self.special or not n:
            return self._choose(t)
        if n == 1:
            return ready[0]
        i = self.pick(ready, t, n) if self.uniform is None else int(self.uniform() * n)
        self.tape.append(i)  # the current task is no option, so the code is the index
        return ready[i]

    def wait_until(self, t: Task, predicate: Callable[[], Any]) -> None:
        """Block ``t`` until ``predicate()``, which must only read, is true or its timer fires."""
        t.predicate = predicate
        self.polled.append(t)
        self.special = True
        try:
            self.block(t)
        finally:
            t.predicate = None
            self.polled.remove(t)
            self._respecial()
        if not t.timed_out:  # a timer that fired has put it among the ready tasks
            self.enable(t)

    def give_up(self, t: Task, what: str, seconds: float) -> None:
        """End the execution because ``t`` has waited ``seconds`` of virtual time for ``what`` in vain."""
        waits = explain_block(self, livelock=True).waits
        text = f"livelock: {t.name} still waits for {what}"
        self.failure = Failure("livelock", text, f"{text} after {seconds:g} s of virtual time", t.name, waits)
        self._to_hub(t)
        raise ScheduleAbort

    def choose(self, n: int, what: str) -> int:
        """Take a data choice from ``range(n)`` and put it on the tape.

        ``what`` names it in the story, for example ``"put fails"``.
        """
        t = state.current
        if self.aborting:
            self._abort_step(t)
        chosen = 0
        if n > 1 and not self.fair:
            chosen = self.strategy.choose(n, what)
            self.tape.append(chosen)
        if self.trace is not None:
            self.trace.append(Step(self.steps, t.name, "choose", what, str(chosen), ""))
        return chosen

    # -- the ends of a run -----------------------------------------------------------------------

    def _over_limit(self, t: Task) -> None:
        if self.aborting:
            return
        if not self.fair:
            # An unfair strategy may starve the task that a spinning one waits for. Only a program
            # that does not finish under a fair choice either is a livelock.
            self.fair = True
            self.limit += self.max_steps
            self.tape_end = len(self.tape)
            self.pick, self.uniform = fair_pick, None
            self.patience, self.looked_at = _PATIENCE, self.now
            return
        if self.patience and self.now > self.looked_at:
            # Time passes: somebody polls or sleeps, and what is waited for may still be due.
            self.patience -= 1
            self.looked_at = self.now
            self.limit += self.max_steps
            return
        self.failure = explain_block(self, livelock=True)
        self._to_hub(t)
        raise ScheduleAbort

    def _to_hub(self, t: Task) -> None:
        state.current = None
        self.carrier.leave(t)

    def _abort_step(self, t: Task, pend: list[Task] | None = None) -> None:
        t.aborts += 1
        if t.aborts > _ABORT_PATIENCE:
            t.done = True
            self.uncontrolled.append(f"{t.name} swallows every exception and could not be unwound")
            self._to_hub(t)
        raise ScheduleAbort

    def _pass(self, t: Task, pend: list[Task] | None = None) -> None:
        """An operation finer than the granularity: performed at once, without a decision."""
        self.steps += 1
        if self.steps > self.limit:
            self._over_limit(t)
        if self.watched:
            self._record(t)

    def _record(self, t: Task) -> None:
        if self.trace is not None:
            self.trace.append(Step(self.steps, t.name, t.kind, label(t), "", source_line(t)))
        if self.observe is not None:
            self.observe(t)


def _ended() -> None:
    """Body of a task that is over."""
