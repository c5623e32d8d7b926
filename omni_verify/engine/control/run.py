"""The record of one execution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from omni_verify.engine.control.failure import Failure
    from omni_verify.engine.control.scheduler import Scheduler

__all__ = ["Run", "Step"]


class Step(NamedTuple):
    """One performed operation: (step number, task name, kind, target with key, detail, ``file:line``)."""

    step: int
    task: str
    kind: str
    target: str
    detail: str
    where: str

    def __str__(self) -> str:
        text = f"{self.task}: {self.kind} {self.target}".rstrip()
        if self.detail:
            text += f" -> {self.detail}"
        return f"{text}  [{self.where}]" if self.where else text


@dataclass(slots=True)
class Run:
    """One execution of the program.

    Attributes:
        tape: the choices; beyond the end of a tape a replay continues the current task.
        decisions: choices taken, which is the length of the tape.
        steps: operations published.
        failure: what went wrong, or None.
        abandoned: whether the strategy stopped the execution because the rest adds nothing.
        cut: whether the step bound was reached, so that the rest ran under a fair choice.
        threads: tasks, the program itself included.
        timers_fired: timers that fired.
        virtual_s: virtual time at the end, seconds.
        leftover: names of tasks that were alive when the program ended (daemons, when nothing failed).
        uncontrolled: calls and threads that the engine could not control; any entry forbids "held".
        trace: performed operations, when the run was traced.
    """

    tape: list[int]
    decisions: int
    steps: int
    failure: Failure | None
    threads: int
    cut: bool = False
    abandoned: bool = False
    timers_fired: int = 0
    virtual_s: float = 0.0
    leftover: list[str] = field(default_factory=list)
    uncontrolled: list[str] = field(default_factory=list)
    trace: list[Step] | None = None

    @classmethod
    def of(cls, s: Scheduler) -> Run:
        """Take the record out of a scheduler whose run is over."""
        tape = s.tape[: s.tape_end] if s.fair else s.tape
        return cls(
            tape=tape,
            decisions=len(tape),
            steps=s.steps,
            failure=s.failure,
            threads=len(s.tasks),
            cut=s.fair,
            abandoned=s.abandoned,
            timers_fired=s.timers_fired,
            virtual_s=s.now,
            leftover=[t.name for t in s.leftover],
            uncontrolled=s.uncontrolled,
            trace=s.trace,
        )
