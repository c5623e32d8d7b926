"""Named replay: a schedule as "when this actor is at this point, that one goes on"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from omni_verify.engine.control.task import Task
from omni_verify.engine.control.waits import label
from omni_verify.engine.schedule import NamedStep
from omni_verify.engine.strategies.base import Strategy

__all__ = ["NamedReplay", "Naming"]


class _Places:
    """Counts how often each actor came to each point at a decision."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()
        self._names: dict[str, Any] = {}

    def of(self, t: Task) -> tuple[str, str, int]:
        # Names of its own: asking must not change how the trace numbers its objects.
        return self.at(t.name, f"{t.kind} {label(t, self._names)}".rstrip())

    def at(self, actor: str, point: str) -> tuple[str, str, int]:
        self._seen[actor, point] += 1
        return actor, point, self._seen[actor, point]


class Naming(Strategy):
    """Wrap a strategy and write down its deviations by name, in ``steps``."""

    def __init__(self, inner: Strategy) -> None:
        self.inner = inner
        self.name = inner.name
        self.steps: list[NamedStep] = []
        self._places = _Places()

    def new_execution(self) -> bool:
        self.steps = []
        self._places = _Places()
        return self.inner.new_execution()

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        place = self._places.of(current)
        i = self.inner.pick(options, current, ready)
        if options[i] is not _default(options, current, ready):
            self.steps.append(NamedStep(*place, options[i].name))
        return i

    def choose(self, n: int, what: str) -> int:
        place = self._places.at("", what)
        value = self.inner.choose(n, what)
        if value:
            self.steps.append(NamedStep(*place, str(value)))
        return value


class NamedReplay(Strategy):
    """Follow named steps in their order; everywhere else continue the current task.

    Not exact as a tape is, but it survives changes of the program that keep actors and points.
    ``diverged`` is ``(step, expected, got)`` when a step's actor was not enabled at its place, else None;
    ``unused`` counts the steps whose place was never reached.
    """

    name = "named"

    def __init__(self, steps: Sequence[NamedStep]) -> None:
        self.steps = list(steps)
        self._fresh = True
        self._rewind()

    def _rewind(self) -> None:
        self._next = 0
        self._places = _Places()
        self.diverged: tuple[int, str, str] | None = None

    def new_execution(self) -> bool:
        self._rewind()
        fresh, self._fresh = self._fresh, False
        return fresh

    def unused(self) -> int:
        """How many steps the run ended before."""
        return len(self.steps) - self._next

    def _due(self, place: tuple[str, str, int]) -> NamedStep | None:
        if self._next < len(self.steps):
            step = self.steps[self._next]
            if (step.actor, step.point, step.occurrence) == place:
                self._next += 1
                return step
        return None

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        step = self._due(self._places.of(current))
        if step is not None:
            for i in range(len(options)):
                if options[i].name == step.to and options[i] is not current:
                    return i
            if self.diverged is None:
                names = ", ".join(t.name for t in options)
                self.diverged = (self._next - 1, f"{step.to} enabled at {step.actor}: {step.point}", names)
        return options.index(_default(options, current, ready))

    def choose(self, n: int, what: str) -> int:
        step = self._due(self._places.at("", what))
        if step is None or not step.to.isdecimal():
            return 0
        if int(step.to) >= n:
            self.diverged = self.diverged or (self._next - 1, f"value {step.to} of {what}", f"{n} values")
            return 0
        return int(step.to)


def _default(options: Sequence[Task], current: Task, ready: int) -> Task:
    """What code 0 means: the current task when it is enabled, else the first."""
    for i in range(ready):
        if options[i] is current:
            return current
    return options[0]
