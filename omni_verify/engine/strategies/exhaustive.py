"""Bounded exhaustive search: depth first over all choices, with few preemptions."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.tape import decode
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Strategy

__all__ = ["Exhaustive"]


class Exhaustive(Strategy):
    """Enumerate every schedule with at most ``bound`` preemptions, each exactly once.

    Musuvathi, Qadeer, "Iterative Context Bounding for Systematic Testing of Multithreaded Programs"
    (PLDI 2007). A preemption is a switch away from a task that could go on; an early timer counts as
    one as well. When `new_execution` has returned False, every schedule within the bound has been run;
    with ``bound=None``, or when the bound never removed a choice, that is every schedule there is at
    the chosen granularity (`completeness` says which). Data choices are enumerated without cost.
    """

    name = "exhaustive"

    def __init__(self, seed: int = 0, bound: int | None = 2) -> None:
        self.bound = bound
        self.name = "exhaustive" if bound is None else f"exhaustive{bound}"
        self.pruned = False
        self.finished = False
        # One entry a decision: [code, number of codes allowed here].
        self._stack: list[list[int]] = []
        self._at = 0
        self._spent = 0
        self._started = False

    def new_execution(self) -> bool:
        if self._started:
            # A run may end before the old stack does only if the program is nondeterministic.
            del self._stack[self._at :]
            while self._stack and self._stack[-1][0] + 1 >= self._stack[-1][1]:
                self._stack.pop()
            if not self._stack:
                self.finished = True
                return False
            self._stack[-1][0] += 1
        self._started = True
        self._at = self._spent = 0
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        n = len(options)
        free = any(options[i] is current for i in range(ready))
        allowed = n
        if self.bound is not None and self._spent >= self.bound:
            allowed = 1 if free else ready
            self.pruned = self.pruned or allowed < n
        code = self._next(allowed)
        if (free and code) or code >= ready:
            self._spent += 1
        return decode(code, options, current, ready)

    def choose(self, n: int, what: str) -> int:
        return self._next(n)

    def _next(self, allowed: int) -> int:
        if self._at == len(self._stack):
            self._stack.append([0, allowed])
        code = self._stack[self._at][0]
        self._at += 1
        return code

    def completeness(self) -> str:
        if not self.finished:
            return ""
        return f"all schedules with at most {self.bound} preemptions" if self.pruned else "all schedules"
