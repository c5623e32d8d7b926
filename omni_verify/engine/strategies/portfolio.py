"""Portfolio: several strategies in turn, because none wins everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.pos import POS
from omni_verify.engine.strategies.random_walk import RandomWalk
from omni_verify.engine.strategies.round_robin import RoundRobin
from omni_verify.engine.strategies.surw import SURW

__all__ = ["Portfolio"]


class Portfolio(Strategy):
    """Give the executions to several strategies in a fixed rotation.

    No guarantee beyond those of its members, each of which gets its share of the budget: random walks
    find shallow bugs, PCT bugs of small depth, POS orders of racing operations, SURW long chains.
    A slice of bounded exhaustive search ends the rotation; when it exhausts the schedules, so has
    the portfolio. The very first execution alternates between all tasks at every point: it costs one
    execution, and the shallowest races show in it whatever the seed.
    """

    name = "portfolio"

    def __init__(self, seed: int) -> None:
        seed *= 31
        # A member is made when its turn comes for the first time: seeding one takes as long as a short run.
        self._makers: list[Callable[[], Strategy]] = [
            lambda: RandomWalk(seed + 1),
            lambda: PCT(seed + 2, depth=3),
            lambda: SURW(seed + 3),
            lambda: POS(seed + 4),
            lambda: PCT(seed + 5, depth=2),
            lambda: SURW(seed + 6),
            lambda: PCT(seed + 7, depth=4),
            lambda: Exhaustive(bound=2),
        ]
        self.members: list[Strategy] = []
        self._turn = -1
        self.active: Strategy = RoundRobin(quantum=1)

    def new_execution(self) -> bool:
        if self._turn < 0:
            self._turn = 0
            return self._activate()
        for _ in self._makers:
            if self._turn == len(self.members):
                self.members.append(self._makers[self._turn]())
            self.active = self.members[self._turn]
            self._turn = (self._turn + 1) % len(self._makers)
            if self._activate():
                return True
            if self.active.completeness() == "all schedules":
                return False  # nothing is left for the samplers either
        return False

    def _activate(self) -> bool:
        # The scheduler reads `pick` once an execution: no forwarding call at each decision.
        self.pick = self.active.pick  # type: ignore[method-assign]
        self.observe, self.uniform = self.active.observe, self.active.uniform
        return self.active.new_execution()

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        return self.active.pick(options, current, ready)

    def choose(self, n: int, what: str) -> int:
        return self.active.choose(n, what)

    def executed(self, run: Run) -> None:
        self.active.executed(run)

    def completeness(self) -> str:
        return self.members[-1].completeness() if len(self.members) == len(self._makers) else ""
