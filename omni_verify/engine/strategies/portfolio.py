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

    Three executions come before all others, whatever the seed: one that first alternates between the tasks
    after every second decision and then lets each go on, in which the shallowest races show, one that
    alternates to the end, and one without preemptions, which shows what is wrong in the simplest order.
    """

    name = "portfolio"
    ROTATION = ("pos", "coarse", "random", "surw", "pos", "coarse", "pct3", "surw", "pct2", "exhaustive2")

    def __init__(self, seed: int) -> None:
        self._seed = seed * 31
        self.members: dict[str, Strategy] = {}
        self._first: list[Strategy] = [
            Replay([]),
            RoundRobin(quantum=2),
            RoundRobin(quantum=2, opening=_OPENING),
        ]
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
                # Only now, when its turn comes: seeding a member takes as long as a short run.
                self.members[name] = _MAKERS[name](self._seed)
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


# Four turns of two. Races are mostly near the start of what two tasks do at the same time, and switches after
# that only disturb: of the 16 bugs that `benchmarks/engine.py` searches, this one execution shows ten, each
# opening from 4 to 9 eight or more, and alternating to the end six.
_OPENING = 8

_MAKERS: dict[str, Callable[[int], Strategy]] = {
    "pos": lambda seed: POS(seed + 1),
    "coarse": lambda seed: CoarsePOS(seed + 2),
    "random": lambda seed: RandomWalk(seed + 3),
    "surw": lambda seed: SURW(seed + 4),
    "pct3": lambda seed: PCT(seed + 5, depth=3),
    "pct2": lambda seed: PCT(seed + 6, depth=2),
    "exhaustive2": lambda _: Exhaustive(bound=2),
}
