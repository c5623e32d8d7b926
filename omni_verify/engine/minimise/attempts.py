"""Attempts at a smaller schedule: every execution that shrinking takes is counted and bounded here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control.run import Run
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.minimise.minimised import Minimised
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.replay import Replay

__all__ = ["Attempts"]


class Attempts:
    """Runs of one program that should fail with ``identity``, and the best of them.

    Attributes:
        best: the cheapest failing schedule so far; there is one after `begin`.
        left: executions that may still be made.
    """

    best: Minimised

    def __init__(
        self, scheduler: Scheduler, program: Callable[[], Any], identity: str, max_reruns: int
    ) -> None:
        self._scheduler, self._program = scheduler, program
        self._identity = identity
        self.left = max_reruns

    def begin(self, tape: list[int]) -> bool:
        """Run ``tape``, with which all others are compared; False when it does not fail."""
        replay = Replay(tape)
        replay.new_execution()
        run = self.run(replay)
        if run is not None:
            self.best = _minimised(run, replay.preemptions)
        return run is not None

    def run(self, strategy: Strategy) -> Run | None:
        """Run once under ``strategy``, which is ready for it; None when it does not fail the same way."""
        self.left -= 1
        run = self._scheduler.run(self._program, strategy)
        return run if run.failure is not None and run.failure.identity == self._identity else None

    def tape(self, tape: list[int]) -> bool:
        """Run ``tape``; keep it and say True when it fails the same way and is better than the best."""
        replay = Replay(tape)
        replay.new_execution()
        run = self.run(replay)
        return run is not None and self.keep(run, replay.preemptions)

    def keep(self, run: Run, preemptions: int) -> bool:
        """Whether a failing run is better than the best, which it then replaces."""
        found = _minimised(run, preemptions)
        if found.cost >= self.best.cost:
            return False
        self.best = found
        return True


def _minimised(run: Run, preemptions: int) -> Minimised:
    tape = list(run.tape)
    while tape and not tape[-1]:
        tape.pop()
    return Minimised(tape, preemptions, len(tape) - tape.count(0), run.steps, 0)
