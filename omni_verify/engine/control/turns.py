"""Turns: what a task calls with a published operation, and gets back when it may perform it.

A decision is taken in the running task, so "continue" costs no switch. This is the hot path of a search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.execution import Execution
from omni_verify.engine.control.failure import ScheduleAbort
from omni_verify.engine.control.run import Step
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.waits import explain_block
from omni_verify.errors import unknown_value

__all__ = ["GRANULARITIES", "Turns"]

# Which operations are decision points. A blocked task always lets others run, whatever the granularity.
GRANULARITIES = ("connector", "sync", "access")


class Turns(Execution):
    """Who goes on at each published operation, at one granularity.

    Attributes:
        point, sync, access, mild: how a named point, an operation of a primitive, a rewritten access and an
            operation that disturbs nobody are published: `step`, or nothing when they are too fine.
    """

    __slots__ = (
        "_access",
        "_mild",
        "_sync",
        "access",
        "granularity",
        "mild",
        "point",
        "sync",
    )

    def __init__(self, granularity: str, max_steps: int, early_timers: int, spurious_wakeups: int) -> None:
        if granularity not in GRANULARITIES:
            raise unknown_value("granularity", granularity, GRANULARITIES)
        super().__init__(max_steps, early_timers, spurious_wakeups)
        self.granularity = granularity
        self._sync: Callable[..., None] = self.step if granularity != "connector" else self._pass
        self._access: Callable[..., None] = self.step if granularity == "access" else self._pass
        # Operations that disturb nobody (a thread starts, an ended one is joined) matter only because of the
        # unpublished accesses around them, and with granularity `access` there are none.
        self._mild: Callable[..., None] = self.step if granularity == "sync" else self._pass
        self._take_turns()

    def _take_turns(self) -> None:
        self.point = self.step
        self.sync, self.access, self.mild = self._sync, self._access, self._mild

    def _only_abort(self) -> None:
        """From now on every operation unwinds its task."""
        self.point = self.sync = self.access = self.mild = self._abort_step

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

    def _pass(self, t: Task, pend: list[Task] | None = None) -> None:
        """An operation finer than the granularity: performed at once, without a decision."""
        self.steps += 1
        if self.steps > self.limit:
            self._over_limit(t)
        if self.watched:
            self._record(t)
