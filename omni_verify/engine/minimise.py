"""Shrink a failing schedule: fewest preemptions, then fewest switches, then fewest steps.

A candidate is kept only when it fails with the *same identity*. First delta debugging over the choices that
deviate from "continue the current task", then a bounded exhaustive search below the count reached, which
finds the minimum outright for small programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.replay import Replay

__all__ = ["Minimised", "minimise"]

# Runs of PCT that a long failing tape is compared with, and the switches from which on a tape is long.
_PROBES, _FEW = 80, 12
# Runs of PCT at each bound that could not be exhausted.
_SAMPLES = 40


@dataclass(frozen=True, slots=True)
class Minimised:
    """The shortest failing tape found.

    Attributes:
        tape: choices, without zeros at the end.
        preemptions: switches away from a task that could go on.
        switches: choices that deviate from "continue" or "lowest id".
        steps: operations of the run.
        reruns: executions that the search took.
    """

    tape: list[int]
    preemptions: int
    switches: int
    steps: int
    reruns: int

    @property
    def cost(self) -> tuple[int, int, int]:
        """What is minimised, in this order."""
        return self.preemptions, self.switches, self.steps


class _Search:
    def __init__(
        self, scheduler: Scheduler, program: Callable[[], Any], identity: str, max_reruns: int
    ) -> None:
        self.scheduler, self.program, self.identity, self.max_reruns = (
            scheduler,
            program,
            identity,
            max_reruns,
        )
        self.reruns = 0
        self.best: Minimised | None = None

    def attempt(self, tape: list[int]) -> bool:
        """Run ``tape``; keep it and say True when it fails the same way and is no worse than the best."""
        replay = Replay(tape)
        replay.new_execution()
        self.reruns += 1
        run = self.scheduler.run(self.program, replay)
        return self._keep(run, replay.preemptions)

    def _keep(self, run: Run, preemptions: int) -> bool:
        if run.failure is None or run.failure.identity != self.identity:
            return False
        tape = list(run.tape)
        while tape and not tape[-1]:
            tape.pop()
        found = Minimised(tape, preemptions, sum(1 for code in tape if code), run.steps, self.reruns)
        if self.best is not None and found.cost >= self.best.cost:
            return False
        self.best = found
        return True

    def exhausted(self) -> bool:
        return self.reruns >= self.max_reruns


def minimise(
    scheduler: Scheduler, program: Callable[[], Any], tape: list[int], identity: str, *, max_reruns: int = 400
) -> Minimised | None:
    """Shrink ``tape``, whose run fails with ``identity``; None when it does not fail that way any more."""
    search = _Search(scheduler, program, identity, max_reruns)
    if not search.attempt(tape):
        return None
    search.attempt([])
    _fewer_to_begin_with(search)
    _delta_debug(search)
    _bounded(search)
    assert search.best is not None
    best = search.best
    return Minimised(best.tape, best.preemptions, best.switches, best.steps, search.reruns)


def _fewer_to_begin_with(search: _Search) -> None:
    """Look for the same failure among runs with few preemptions by construction.

    A random walk deviates at every other decision; setting hundreds of deviations back one group at a time
    would use up all reruns before it gets small.
    """
    for seed in range(_PROBES):
        if search.best is None or search.best.switches <= _FEW or search.exhausted():
            return
        _probe(search, seed, depth=2 + seed % 2)


def _probe(search: _Search, seed: int, *, depth: int) -> None:
    """Run PCT, which changes priorities ``depth - 1`` times, and keep what is better."""
    assert search.best is not None
    probe = PCT(seed, depth=depth)
    probe.length = max(1, len(search.best.tape))
    probe.new_execution()
    search.reruns += 1
    run = search.scheduler.run(search.program, probe)
    if run.failure is not None and run.failure.identity == search.identity:
        search.attempt(run.tape)


def _delta_debug(search: _Search) -> None:
    """Set groups of deviations back to 0, from large groups to single ones."""
    best = search.best
    assert best is not None
    size = max(1, best.switches // 2)
    while not search.exhausted():
        places = [at for at, code in enumerate(best.tape) if code]
        progress = False
        # From the end: zeroing a late choice keeps the meaning of all earlier ones.
        for start in range(len(places) - size, -size, -size):
            group = places[max(0, start) : start + size]
            candidate = [0 if at in group else code for at, code in enumerate(best.tape)]
            if search.exhausted():
                return
            if search.attempt(candidate):
                assert search.best is not None
                best, progress = search.best, True  # the groups before it stand where they stood
        if not progress:
            if size == 1:
                return
            size = max(1, size // 2)
        else:
            size = max(1, min(size, best.switches // 2))


def _bounded(search: _Search) -> None:
    """Look for a run with fewer preemptions than the best one, by increasing bound."""
    assert search.best is not None
    bound = 0
    while bound < search.best.preemptions and not search.exhausted():
        walk = Exhaustive(bound=bound)
        # An equal share for each bound: the switches of ended or blocked tasks alone may be many at bound 0.
        left = max(0, search.max_reruns - search.reruns)
        share = search.reruns + max(0, left // (search.best.preemptions - bound) - _SAMPLES)
        is_complete = False
        while search.reruns < share:
            if not walk.new_execution():
                is_complete = True
                break
            search.reruns += 1
            run = search.scheduler.run(search.program, walk)
            if (
                run.failure is not None
                and run.failure.identity == search.identity
                and search.attempt(run.tape)
            ):
                break
        if not is_complete:
            _sample(search, bound)
        bound += 1


def _sample(search: _Search, bound: int) -> None:
    """Try a few runs of a bound that takes more than its share to exhaust."""
    for seed in range(_SAMPLES):
        if search.best is None or search.best.preemptions <= bound or search.exhausted():
            return
        _probe(search, seed, depth=bound + 1)
