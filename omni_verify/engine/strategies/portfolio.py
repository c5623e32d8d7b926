"""Portfolio: several strategies in turn, because none wins everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.pos import POS
from omni_verify.engine.strategies.random_walk import RandomWalk
from omni_verify.engine.strategies.surw import SURW

__all__ = ["Portfolio"]


class Portfolio(Strategy):
    """Give the executions to several strategies in a fixed rotation.

    No guarantee beyond those of its members, each of which gets its share of the budget: random walks
    find shallow bugs, PCT bugs of small depth, POS orders of racing operations, SURW long chains.
    A slice of bounded exhaustive search ends the rotation; when it exhausts the schedules, so has
    the portfolio.
    """

    name = "portfolio"

    def __init__(self, seed: int) -> None:
        self.members: list[Strategy] = [
            RandomWalk(seed * 31 + 1),
            PCT(seed * 31 + 2, depth=3),
            SURW(seed * 31 + 3),
            POS(seed * 31 + 4),
            PCT(seed * 31 + 5, depth=2),
            SURW(seed * 31 + 6),
            PCT(seed * 31 + 7, depth=4),
            Exhaustive(bound=2),
        ]
        self._turn = -1
        self.active = self.members[0]

    def new_execution(self) -> bool:
        for _ in self.members:
            self._turn = (self._turn + 1) % len(self.members)
            member = self.members[self._turn]
            if member.new_execution():
                self.active = member
                # The scheduler reads `pick` once an execution: no forwarding call at each decision.
                self.pick = member.pick  # type: ignore[method-assign]
                self.observe, self.uniform = member.observe, member.uniform
                return True
            if member.completeness() == "all schedules":
                return False  # nothing is left for the samplers either
        return False

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        return self.active.pick(options, current, ready)

    def choose(self, n: int, what: str) -> int:
        return self.active.choose(n, what)

    def executed(self, run: Run) -> None:
        self.active.executed(run)

    def completeness(self) -> str:
        return self.members[-1].completeness()
