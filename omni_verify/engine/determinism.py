"""Detect nondeterminism that the engine does not control: run a schedule twice and compare.

Passing is no proof of its absence; a difference is a defect of the program under test or of its harness
(real time, real threads, hash order, state kept from one execution to the next), never of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.replay import Replay

__all__ = ["Difference", "Recording", "verify_determinism"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision at which two runs of one schedule differ.

    ``first`` and ``second`` describe the enabled tasks and their published operations.
    """

    decision: int
    first: str
    second: str

    def __str__(self) -> str:
        return f"decision {self.decision}: first run had {self.first}; second run had {self.second}"


class Recording(Strategy):
    """Wrap a strategy and keep, for every decision, who was enabled and what each was about to do."""

    def __init__(self, inner: Strategy) -> None:
        self.inner = inner
        self.name = inner.name
        self.seen: list[tuple[Any, ...]] = []

    def new_execution(self) -> bool:
        self.seen = []
        return self.inner.new_execution()

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        self.seen.append((current.name, ready, *((t.name, t.kind) for t in options)))
        return self.inner.pick(options, current, ready)

    def choose(self, n: int, what: str) -> int:
        self.seen.append(("choose", n, what))
        return self.inner.choose(n, what)

    def executed(self, run: Run) -> None:
        self.inner.executed(run)


def verify_determinism(
    scheduler: Scheduler, program: Callable[[], Any], strategy: Strategy
) -> Difference | None:
    """Run one execution of ``strategy`` and its replay; None when both saw the same at every decision."""
    first = Recording(strategy)
    if not first.new_execution():
        return None
    run = scheduler.run(program, first)
    first.executed(run)
    second = Recording(Replay(run.tape))
    second.new_execution()
    again = scheduler.run(program, second)
    for at, (one, two) in enumerate(zip(first.seen, second.seen, strict=False)):
        if one != two:
            return Difference(at, _shown(one), _shown(two))
    if len(first.seen) != len(second.seen):
        return Difference(
            min(len(first.seen), len(second.seen)), f"{len(first.seen)} decisions", f"{len(second.seen)}"
        )
    one_end, two_end = (r.failure.identity if r.failure else "no failure" for r in (run, again))
    return None if one_end == two_end else Difference(len(first.seen), one_end, two_end)


def _shown(record: tuple[Any, ...]) -> str:
    if record[0] == "choose":
        return f"a data choice {record[2]!r} of {record[1]}"
    return ", ".join(f"{name} at {kind}" for name, kind in record[2:])
