"""Shrinks a failing program: fewer operations and strikes first, then a shorter schedule."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.task import Task
from omni_verify.engine.minimise import minimise
from omni_verify.engine.strategies import make_strategy
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.replay import Replay
from omni_verify.harness.fuzz.generate import smaller
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.workload import FuzzWorkload
from omni_verify.targets.protocol import Target

__all__ = ["Shrunk", "shrink"]

PROGRAM_RUNS, SCHEDULE_RUNS = 160, 80
"""Runs that the search for a smaller program, and for a shorter schedule, may take."""
SAMPLES, CHANCES = 2, 3
"""Random schedules that a smaller program is tried under besides the known one and the calm ones; and chances
of the nemeses at which a calm schedule strikes."""


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest failing run found.

    Attributes:
        program, tape: replay it.
        preemptions, switches, steps: cost of the schedule.
        runs: executions that the search took.
    """

    program: Program
    tape: tuple[int, ...]
    preemptions: int
    switches: int
    steps: int
    runs: int


class Calm(Strategy):
    """Let every task go on as long as it can; strike at one chance only.

    Args:
        chance: number of the data choice that strikes, from 0; negative for none.
    """

    name = "calm"

    def __init__(self, chance: int) -> None:
        self.chance, self._seen = chance, -1

    def new_execution(self) -> bool:
        self._seen = -1
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        return next((i for i in range(ready) if options[i] is current), 0)

    def choose(self, n: int, what: str) -> int:
        self._seen += 1
        return int(self._seen == self.chance)


class _Search:
    def __init__(
        self, scheduler: Scheduler, target: Target, identity: str, prefix: str, timeout: float
    ) -> None:
        self.scheduler, self.target, self.identity = scheduler, target, identity
        self.prefix, self.timeout = prefix, timeout
        self.runs = 0
        self.calm, self.chance = False, -1

    def fails(self, program: Program, strategy: Strategy) -> list[int] | None:
        """Run once; the tape when it fails as wanted."""
        workload = FuzzWorkload(self.target, program, prefix=self.prefix, wanted=self.identity)
        strategy.new_execution()
        self.runs += 1
        run = self.scheduler.run(workload, strategy, timeout=self.timeout)
        same = run.failure is not None and run.failure.identity == self.identity
        return list(run.tape) if same else None

    def tape_for(self, program: Program, tape: list[int]) -> list[int] | None:
        """A schedule under which the program fails as wanted, from a few tries.

        What has failed under a calm schedule needs no race: its smaller programs are tried calmly only.
        """
        tries: list[Strategy] = [Calm(n) for n in range(-1, CHANCES if program.nemeses else 0)]
        if self.calm:
            tries.sort(key=lambda t: isinstance(t, Calm) and t.chance != self.chance)
        else:
            tries += [Replay(tape), *(make_strategy("random", n) for n in range(SAMPLES))]
        for strategy in tries:
            found = self.fails(program, strategy)
            if found is not None:
                if isinstance(strategy, Calm):
                    self.calm, self.chance = True, strategy.chance
                return found
        return None


def shrink(
    scheduler: Scheduler,
    target: Target,
    program: Program,
    tape: list[int],
    identity: str,
    *,
    prefix: str = "",
    timeout: float = 20.0,
) -> Shrunk | None:
    """Shrink program, then schedule, keeping the failure's identity; None when it does not show again."""
    search = _Search(scheduler, target, identity, prefix, timeout)
    known = search.fails(program, Replay(tape))
    if known is None:
        return None
    known = search.tape_for(program, known) or known
    progress = True
    while progress and search.runs < PROGRAM_RUNS:
        progress = False
        for candidate in smaller(program):
            if search.runs >= PROGRAM_RUNS:
                break
            found = search.tape_for(candidate, known)
            if found is not None:
                program, known, progress = candidate, found, True
                break
    workload = FuzzWorkload(target, program, prefix=prefix, wanted=identity)
    best = minimise(scheduler, workload, known, identity, max_reruns=SCHEDULE_RUNS)
    if best is None:
        return None
    return Shrunk(
        program=program,
        tape=tuple(best.tape),
        preemptions=best.preemptions,
        switches=best.switches,
        steps=best.steps,
        runs=search.runs + best.reruns,
    )
