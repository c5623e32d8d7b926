"""What a strategy must answer, and the parts that the sampling ones share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from omni_verify.engine.control.task import Task

if TYPE_CHECKING:
    from omni_verify.engine.control.run import Run

__all__ = ["Sampler", "Strategy"]


class Strategy:
    """Answer "who runs next" and "which value", execution after execution.

    The explorer calls `new_execution`, runs the program, then calls `executed`. Inside a run the
    scheduler calls `pick` and `choose`; both must be functions of what the strategy has seen, so that
    the same seed gives the same executions.
    """

    name = "strategy"
    # Called with the task after each performed operation, when set; costs speed.
    observe: Callable[[Task], None] | None = None
    # When set, a decision between enabled tasks alone is ``int(uniform() * ready)``: the scheduler
    # takes it itself, which saves the call of `pick`, and `pick` must agree.
    uniform: Callable[[], float] | None = None
    # Whether it also chooses early timers and spurious wake-ups: completeness depends on their budgets.
    deviates = True

    def new_execution(self) -> bool:
        """Prepare the next execution; False when there is nothing left to try."""
        raise NotImplementedError

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        """Index into ``options`` of the task that goes on.

        ``options[:ready]`` are the enabled tasks by ascending id; choosing one of the rest fires the
        timer of a blocked task early, or wakes a waiter that nobody notified. ``options`` has at least
        two members and must not be kept.
        """
        raise NotImplementedError

    def choose(self, n: int, what: str) -> int:
        """A value of ``range(n)``, ``n >= 2``, for the data choice called ``what``; 0 is the ordinary one."""
        raise NotImplementedError

    def left_over(self, tasks: Sequence[Task]) -> None:
        """See the unfinished tasks, with their published operations, before they are aborted."""

    def executed(self, run: Run) -> None:
        """Learn from the execution that has just ended."""

    def completeness(self) -> str:
        """What a finished search has covered, in words; empty for strategies that only sample."""
        return ""


class Sampler(Strategy):
    """Base of the randomised strategies: a seeded generator, an estimate of the length, early timers.

    Early timers are spread over the execution: a run fires between none and ``EARLY`` of them, each at the
    first chance after a uniformly drawn decision. Drawing at every decision would spend the whole
    budget at the start of a run in which loops poll with time-outs.
    """

    EARLY = 2

    def __init__(self, seed: int) -> None:
        # Only random() is used: the derived methods may differ between Python versions.
        self.random = random.Random(seed).random
        self.length = 8  # decisions of the longest execution so far
        self.count = 0  # decisions of the current execution
        self._early: list[int] = []

    def new_execution(self) -> bool:
        self.count = 0
        draw = self.random
        early = int(draw() * (self.EARLY + 1))
        self._early = sorted([int(draw() * self.length) for _ in range(early)]) if early else []
        return True

    def choose(self, n: int, what: str) -> int:
        return int(self.random() * n)

    def executed(self, run: Run) -> None:
        if run.decisions > self.length:
            self.length = run.decisions

    def early(self, options: Sequence[Task], ready: int) -> int:
        """Index of a timer that fires early at this decision, or -1."""
        if self._early and self.count > self._early[0]:
            self._early.pop(0)
            return ready + int(self.random() * (len(options) - ready))
        return -1
