"""An execution in progress: what it has done so far, and the ways in which it ends early."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.agenda import Agenda, fair_pick
from omni_verify.engine.control.carriers import Carrier
from omni_verify.engine.control.failure import Failure, ScheduleAbort
from omni_verify.engine.control.run import Step
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.waits import explain_block, label, source_line

__all__ = ["Execution"]

# An aborted task that swallows this many aborts is left behind instead of unwound.
_ABORT_PATIENCE = 200
# How many times the fair choice gets `max_steps` more because virtual time has passed meanwhile.
_PATIENCE = 10


class Execution(Agenda):
    """The agenda of an execution together with its record, which `Run` is made of.

    Attributes:
        steps: operations published so far.
        limit: the steps after which `_over_limit` is asked what to do.
        alive: unfinished tasks that are not daemons.
        fair: whether the step bound was reached, so that the rest runs under a fair choice.
        aborting: whether all tasks are being unwound.
        watched: whether every performed operation is traced or observed.
        names: numbers given out in this execution, by what was numbered.
    """

    __slots__ = (
        "abandoned",
        "aborting",
        "alive",
        "carrier",
        "failure",
        "fair",
        "leftover",
        "limit",
        "looked_at",
        "max_steps",
        "names",
        "observe",
        "patience",
        "running",
        "runs",
        "steps",
        "strategy",
        "tape_end",
        "thread_number",
        "trace",
        "uncontrolled",
        "uniform",
        "watched",
    )

    carrier: Carrier
    strategy: Any  # the Strategy of the running execution

    def __init__(self, max_steps: int, early_timers: int, spurious_wakeups: int) -> None:
        super().__init__(early_timers, spurious_wakeups)
        self.max_steps = max_steps
        self.runs = 0
        self.running = False

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

    def next_thread_number(self) -> int:
        """Number for the default name of a thread, counted anew in every execution."""
        self.thread_number += 1
        return self.thread_number

    def _progress(self) -> int:
        return self.steps

    def _record(self, t: Task) -> None:
        if self.trace is not None:
            self.trace.append(Step(self.steps, t.name, t.kind, label(t), "", source_line(t)))
        if self.observe is not None:
            self.observe(t)

    # -- the ends of a run -----------------------------------------------------------------------

    def give_up(self, t: Task, what: str, seconds: float) -> None:
        """End the execution because ``t`` has waited ``seconds`` of virtual time for ``what`` in vain."""
        waits = explain_block(self, livelock=True).waits
        text = f"livelock: {t.name} still waits for {what}"
        self.failure = Failure("livelock", text, f"{text} after {seconds:g} s of virtual time", t.name, waits)
        self._to_hub(t)
        raise ScheduleAbort

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
