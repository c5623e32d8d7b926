"""Round robin: the fair, fixed order, mostly as a baseline and for finding a first run quickly."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy

__all__ = ["RoundRobin"]


class RoundRobin(Strategy):
    """Give every enabled task ``quantum`` decisions in turn; execution i uses quantum i.

    No bug-finding guarantee. Every task that stays enabled runs again after at most
    ``tasks * quantum`` decisions, so a program that waits by spinning terminates.

    Args:
        seed: without influence.
        quantum: the same in every execution.
        opening: decisions after which there are no more preemptions; by default they never end.
    """

    name = "round_robin"

    def __init__(self, seed: int = 0, quantum: int | None = None, opening: int | None = None) -> None:
        self.fixed = quantum
        self.opening = opening
        self.quantum = quantum or 0
        self._left = 0

    def new_execution(self) -> bool:
        self.quantum = self.fixed or self.quantum + 1
        self._left = self.quantum
        self._count = 0
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        self._count += 1
        if self._left > 1 or (self.opening is not None and self._count > self.opening):
            for at in range(ready):
                if options[at] is current:
                    self._left -= 1
                    return at
        self._left = self.quantum
        for at in range(ready):
            if options[at].id > current.id:
                return at
        return 0

    def choose(self, n: int, what: str) -> int:
        return 0
