"""Portfolio: several strategies in turn, because none wins everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Sampler, Strategy
from omni_verify.engine.strategies.coarse import CoarsePOS
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.pos import POS
from omni_verify.engine.strategies.random_walk import RandomWalk
from omni_verify.engine.strategies.replay import Replay
from omni_verify.engine.strategies.round_robin import RoundRobin
from omni_verify.engine.strategies.surw import SURW

__all__ = ["Portfolio"]


class Portfolio(Strategy):
    """Give the executions to several strategies in a fixed rotation.

    No guarantee beyond those of its members, each of which gets its share of the budget: POS finds
    orders of racing operations, random walks shallow bugs, PCT bugs of small depth, SURW long chains.
    A slice of bounded exhaustive search ends the rotation; when it exhausts the schedules, so has
    the portfolio.

    Two executions come before all others, whatever the seed: one that alternates between the tasks after
    every second decision, in which the shallowest races show, and one without preemptions, which shows
    what is wrong in the simplest order.
    """

    name = "portfolio"
    ROTATION = ("pos", "coarse", "random", "surw", "pos", "coarse", "pct3", "surw", "pct2", "exhaustive2")

    def __init__(self, seed: int) -> None:
        seed *= 31
        # A member is made when its turn comes for the first time: seeding one takes as long as a short run.
        self._makers: dict[str, Callable[[], Strategy]] = {
            "pos": lambda: POS(seed + 1),
            "coarse": lambda: CoarsePOS(seed + 2),
            "random": lambda: RandomWalk(seed + 3),
            "surw": lambda: SURW(seed + 4),
            "pct3": lambda: PCT(seed + 5, depth=3),
            "pct2": lambda: PCT(seed + 6, depth=2),
            "exhaustive2": lambda: Exhaustive(bound=2),
        }
        self.members: dict[str, Strategy] = {}
        self._first: list[Strategy] = [Replay([]), RoundRobin(quantum=2)]
        self._turn = -1
        self._longest = 0
        self.active = self._first[-1]

    def new_execution(self) -> bool:
        if self._first:
            return self._activate(self._first.pop())
        for _ in self.ROTATION:
            self._turn = (self._turn + 1) % len(self.ROTATION)
            name = self.ROTATION[self._turn]
            if name not in self.members:
                self.members[name] = self._makers[name]()
            member = self.members[name]
            if isinstance(member, Sampler):
                member.length = max(member.length, self._longest)
            if self._activate(member):
                return True
            if member.completeness() == "all schedules":
                return False  # nothing is left for the samplers either
        return False

    def _activate(self, member: Strategy) -> bool:
        self.active = member
        # The scheduler reads `pick` once an execution: no forwarding call at each decision.
        self.pick = member.pick  # type: ignore[method-assign]
        self.observe, self.uniform = member.observe, member.uniform
        return member.new_execution()

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        return self.active.pick(options, current, ready)

    def choose(self, n: int, what: str) -> int:
        return self.active.choose(n, what)

    def executed(self, run: Run) -> None:
        self.active.executed(run)
        self._longest = max(self._longest, run.decisions)

    def completeness(self) -> str:
        last = self.members.get(self.ROTATION[-1])
        return last.completeness() if last is not None else ""
