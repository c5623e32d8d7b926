"""Shrink a found schedule within a number of reruns: one preemption is a story, ten are a log.

The engine's minimiser takes choices of a schedule back one by one. A schedule that a random walk found may
have no smaller failing neighbour of that kind: so whole blocks of a task are joined, and what is left of the
reruns goes to schedules that have few preemptions by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from omni_verify.campaign.explore.blocks import joined
from omni_verify.engine import explore as engine
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.watchdog import watch
from omni_verify.engine.minimise import Minimised, minimise
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.replay import Replay

__all__ = ["shrunk"]

_POLISH = 40
"""Reruns for taking choices of a smaller schedule back."""
_DEEPEST = 4


def shrunk(
    found: engine.Found, program: Callable[[], Any], result: engine.ExploreResult, reruns: int
) -> engine.Found:
    """The same failure with the fewest preemptions, then switches, then steps that `reruns` executions show.

    Args:
        found: as the search found it, not minimised.
        program: what was searched; it is under control.
        result: of the search: its name and bounds go into the token.
        reruns: executions; 0 leaves `found` as it is.
    """
    if not reruns:
        return found
    identity, bounds = found.failure.identity, result.bounds
    scheduler = bounds.scheduler()
    try:
        with watch(scheduler, bounds.blocked_s):
            tape = list(found.schedule.tape)
            small = minimise(scheduler, program, tape, identity, max_reruns=max(1, reruns // 4))
            if small is None:
                return found
            small = joined(scheduler, program, identity, small, reruns // 2)
            small = _fewer(scheduler, program, identity, small, reruns // 4)
    finally:
        scheduler.close()
    again = engine.explore(
        program, strategy=Replay(small.tape), budget=1, shrink=False, name=result.program, bounds=bounds
    ).failures
    if not again or again[0].failure.identity != identity:
        return found
    return dataclasses.replace(again[0], execution=found.execution, count=found.count, minimised=small)


def _fewer(
    scheduler: Scheduler, program: Callable[[], Any], identity: str, best: Minimised, reruns: int
) -> Minimised:
    """Look for the failure under PCT of depth 1, 2, ...: depth d makes at most d - 1 preemptions."""
    spent = 0
    for depth in range(1, _DEEPEST + 1):
        share = (reruns - spent) // (_DEEPEST + 1 - depth)
        for seed in range(share):
            if best.preemptions < depth:
                return best
            if spent >= reruns:
                break
            probe = PCT(seed, depth=depth)
            probe.length = max(len(best.tape), probe.length)
            probe.new_execution()
            run = scheduler.run(program, probe)
            spent += 1
            if run.failure is None or run.failure.identity != identity:
                continue
            smaller = minimise(scheduler, program, run.tape, identity, max_reruns=_POLISH)
            if smaller is not None:
                spent += smaller.reruns
                best = min(best, smaller, key=lambda m: m.cost)
    return best
