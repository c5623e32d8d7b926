"""Replay: repeat the choices of a tape, and say where the program no longer follows it."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.tape import decode
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy

__all__ = ["Replay"]


class Replay(Strategy):
    """Follow ``tape``; after its end, and after a divergence, continue the current task.

    Exact: the engine is deterministic, so the same program gives the same run.

    Args:
        tape: the choices.
        arity: number of options at each choice that is not 0, or empty when unknown.

    ``diverged`` is ``(decision, expected, got)`` for the first choice that the program does not offer,
    else None. ``arity_seen`` collects what ``arity`` of the next replay should be, and ``preemptions``
    counts the switches away from a task that could go on (early timers included).
    """

    name = "replay"

    def __init__(self, tape: Sequence[int], arity: Sequence[int] = ()) -> None:
        self.tape = list(tape)
        self.arity = list(arity)
        self._fresh = True
        self._rewind()

    def _rewind(self) -> None:
        self.at = 0
        self.diverged: tuple[int, str, str] | None = None
        self.arity_seen: list[int] = []
        self.preemptions = 0

    def new_execution(self) -> bool:
        self._rewind()
        fresh, self._fresh = self._fresh, False
        return fresh

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        code = self._next(len(options), "a thread choice")
        if code and (code >= ready or any(options[i] is current for i in range(ready))):
            self.preemptions += 1
        return decode(code, options, current, ready)

    def choose(self, n: int, what: str) -> int:
        return self._next(n, f"the data choice {what!r}")

    def _next(self, n: int, what: str) -> int:
        at = self.at
        self.at = at + 1
        if at >= len(self.tape) or self.diverged is not None:
            return 0
        code = self.tape[at]
        if not code:
            return 0
        expected = self.arity[len(self.arity_seen)] if len(self.arity_seen) < len(self.arity) else n
        if code >= n or expected != n:
            self.diverged = (at, f"option {code} of {expected} at {what}", f"{n} options")
            return 0
        self.arity_seen.append(n)
        return code

    def unused(self) -> int:
        """How many deviations of the tape the run ended before."""
        return sum(1 for code in self.tape[self.at :] if code)
