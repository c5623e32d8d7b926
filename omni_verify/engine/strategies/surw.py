"""SURW: uniform random walk weighted by the work that is left."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Sampler

__all__ = ["SURW"]


class SURW(Sampler):
    """Choose a task with probability proportional to the operations that it still has to perform.

    Zhao, Wolff, Mathur, Roychoudhury, "Selectively Uniform Concurrency Testing" (ASPLOS 2025): with exact
    counts every interleaving is equally likely, where a plain random walk prefers those in which short
    tasks end late. This is the unselective form (the paper's URW); the counts are those of the previous
    executions, per task id, so uniformity holds as far as the program takes the same number of steps
    under every schedule.
    """

    name = "surw"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._expected: list[float] = []
        self._done: list[int] = []
        self.observe = self._count_performed

    def new_execution(self) -> bool:
        super().new_execution()
        self._done = [0] * len(self._expected)
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        self.count += 1
        if len(options) > ready:
            timer = self.early(options, ready)
            if timer >= 0:
                return timer
        expected, done = self._expected, self._done
        total, weights = 0.0, []
        for i in range(ready):
            ident = options[i].id
            while ident >= len(expected):
                expected.append(1.0)
                done.append(0)
            left = expected[ident] - done[ident]
            total += max(1.0, left)
            weights.append(total)
        mark = self.random() * total
        at = 0
        while weights[at] <= mark:
            at += 1
        return at

    def _count_performed(self, t: Task) -> None:
        # Starting and joining are no decisions at the finest granularity, so they are not counted as work.
        if t.kind not in ("start", "join"):
            done, ident = self._done, t.id
            while ident >= len(done):
                self._expected.append(1.0)
                done.append(0)
            done[ident] += 1

    def executed(self, run: Run) -> None:
        super().executed(run)
        if run.failure is None:  # a failing run is cut short and would bias the counts
            for ident, count in enumerate(self._done):
                self._expected[ident] = float(count) or 1.0
