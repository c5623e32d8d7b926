"""Events and the trace that holds them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

__all__ = ["Event", "Trace"]


class Event(msgspec.Struct, frozen=True):
    """One actor reached one point.

    Attributes:
        seq: position in the run's total order, from 0.
        actor: who reached it (``"client"``, ``"producer.save"``).
        point: name of the point, for example ``"put.enter"``.
        key: transfer key, request id or container, without the run's prefix.
        detail: small JSON values (result, size, generation).
        at_ns: nanoseconds since the run began; virtual under the controlled scheduler.
    """

    seq: int
    actor: str
    point: str
    key: str = ""
    detail: dict[str, object] = {}
    at_ns: int = 0

    def __str__(self) -> str:
        return f"{self.actor}: {self.point}({self.key})" if self.key else f"{self.actor}: {self.point}"


class Trace:
    """Append-only list of events; appending is atomic under the interpreter lock.

    The caller that needs "append and look" as one step holds its own lock (`engine.gates`).
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._start = clock()
        self.events: list[Event] = []
        self._by_point: dict[str, list[Event]] = {}
        self._by_key: dict[tuple[str, str], list[Event]] = {}

    def append(self, actor: str, point: str, key: str = "", detail: dict[str, object] | None = None) -> Event:
        """Record that `actor` reached `point` and return the event."""
        event = Event(len(self.events), actor, point, key, detail or {}, self._clock() - self._start)
        self.events.append(event)
        self._by_point.setdefault(point, []).append(event)
        self._by_key.setdefault((point, key), []).append(event)
        return event

    def at(self, point: str, key: str = "*") -> list[Event]:
        """Return the events of a point in order; the key ``"*"`` takes every event of the point."""
        return self._by_point.get(point, []) if key == "*" else self._by_key.get((point, key), [])

    def last(self, point: str, key: str = "*") -> Event | None:
        """Return the newest event of a point, None when there is none."""
        events = self.at(point, key)
        return events[-1] if events else None

    def since(self, point: str, seq: int, key: str = "*") -> Iterator[Event]:
        """Yield the events of a point from position `seq` on, newest first."""
        for event in reversed(self.at(point, key)):
            if event.seq < seq:
                return
            yield event

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self.events))

    def __len__(self) -> int:
        return len(self.events)
