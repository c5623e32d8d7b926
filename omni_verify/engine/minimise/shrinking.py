"""The order in which shrinking tries things, within one number of reruns.

A candidate is kept only when it fails with the *same identity*. Delta debugging takes deviations back,
joining blocks reaches what no single step back does, and a bounded exhaustive search below the count reached
finds the minimum outright for small programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.minimise.attempts import Attempts
from omni_verify.engine.minimise.blocks import join_blocks
from omni_verify.engine.minimise.deviations import take_back
from omni_verify.engine.minimise.few import begin_with_few, bound_preemptions
from omni_verify.engine.minimise.minimised import Minimised

__all__ = ["MAX_RERUNS", "minimise"]

MAX_RERUNS = 400
"""Executions that shrinking one failure takes at most, by default."""

# With so few preemptions a bounded search below them is cheaper than joining blocks.
_A_STORY = 1


def minimise(
    scheduler: Scheduler,
    program: Callable[[], Any],
    tape: list[int],
    identity: str,
    *,
    max_reruns: int = MAX_RERUNS,
) -> Minimised | None:
    """Shrink ``tape``, whose run fails with ``identity``.

    Args:
        scheduler: runs the candidates; its bounds are those of the search.
        program: what was searched; it is under control.
        tape: choices of the failing run.
        identity: what every candidate must fail with.
        max_reruns: executions, at least 1.

    Returns:
        The failing schedule of the lowest cost found; None when ``tape`` does not fail that way any more.
    """
    attempts = Attempts(scheduler, program, identity, max_reruns)
    if not attempts.begin(tape):
        return None
    if attempts.left > 0:
        attempts.tape([])
    begin_with_few(attempts)
    take_back(attempts)
    if attempts.best.preemptions > _A_STORY:
        join_blocks(attempts, attempts.left // 2)
    before = attempts.best
    bound_preemptions(attempts)
    if attempts.best is not before:
        take_back(attempts)
    best = attempts.best
    return Minimised(best.tape, best.preemptions, best.switches, best.steps, max_reruns - attempts.left)
