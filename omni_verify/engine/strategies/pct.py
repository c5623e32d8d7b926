"""PCT: random priorities with a few random change points."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Sampler

__all__ = ["PCT"]


class PCT(Sampler):
    """Always run the enabled task with the highest priority; lower it at ``depth - 1`` random decisions.

    Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees
    of Finding Bugs" (ASPLOS 2010): one execution finds a bug of depth d with probability at least
    ``1 / (n * k**(d - 1))`` for n tasks and k decisions. Deviation: k is the longest execution so far,
    counted in decisions with a choice, because the others cannot be change points.
    """

    def __init__(self, seed: int, depth: int = 3) -> None:
        super().__init__(seed)
        self.depth = depth
        self.name = f"pct{depth}"

    def new_execution(self) -> bool:
        super().new_execution()
        draw = self.random
        # Invariant: change priorities lie below 1 and initial ones in [1, 2), so a changed task runs last.
        self._changes = {int(draw() * self.length) + 1: draw() for _ in range(self.depth - 1)}
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        self.count += 1
        if len(options) > ready:
            timer = self.early(options, ready)
            if timer >= 0:
                return timer
        if self.count in self._changes:
            current.prio = self._changes[self.count]
        best, at = -1.0, 0
        for i in range(ready):
            prio = options[i].prio
            if prio is None:
                prio = options[i].prio = 1.0 + self.random()
            if prio > best:
                best, at = prio, i
        return at
