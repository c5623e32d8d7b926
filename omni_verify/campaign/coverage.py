"""What a run has covered, and what it has not: a guard against verdicts that nothing stands behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from omni_verify.engine.points import OPERATIONS
from omni_verify.trace.event import Event

__all__ = ["Coverage", "Gaps", "observe"]

_SELF_MADE = frozenset({"mark", "step", "tick", "actor", "process", "deque", "fault", "deliver", "idle"})
"""Points of the harness, or of nobody's doing."""
_COUNTS = ("points", "orders", "concurrent", "possible", "invariants", "nemeses", "verbs")
_THREADS = (".save", ".recv")


class Coverage(msgspec.Struct, kw_only=True):
    """Counts over traces; two of them add up.

    Attributes:
        runs: traces.
        points: name -> how often reached.
        orders: ``a < b``: neighbours on one key by different actors, at points, both ways being two orders.
        concurrent: ``a || b``: operations of different actors that overlapped in time.
        possible: ``a || b``: traces in which two threads did them, so that they could overlap. The verbs of
            schedulers count as one thread's: those of one stage come from one, those of two share nothing.
        invariants: id -> runs in which it was judged.
        nemeses: name -> strikes.
        verbs: verb of a fuzzed program -> how often used.
    """

    runs: int = 0
    points: dict[str, int] = {}
    orders: dict[str, int] = {}
    concurrent: dict[str, int] = {}
    possible: dict[str, int] = {}
    invariants: dict[str, int] = {}
    nemeses: dict[str, int] = {}
    verbs: dict[str, int] = {}

    def add(self, other: Coverage) -> None:
        """Add another one."""
        self.runs += other.runs
        for field in _COUNTS:
            count(getattr(self, field), getattr(other, field).items())

    def gaps(
        self, *, possible: Iterable[str], nemeses: Iterable[str] = (), verbs: Iterable[str] = ()
    ) -> Gaps:
        """Name what was possible and did not happen.

        Args:
            possible: operations that the target reaches.
            nemeses, verbs: those that were allowed.
        """
        operations = sorted(set(possible) & set(OPERATIONS))
        met = {name.rpartition(".")[0] for name in self.points}
        one_way = [
            f"{b} < {a}"
            for a, _, b in (order.partition(" < ") for order in self.orders)
            if f"{b} < {a}" not in self.orders
        ]
        return Gaps(
            operations=tuple(o for o in operations if o not in met),
            concurrent=tuple(sorted(p for p in self.possible if p not in self.concurrent)),
            orders=tuple(sorted(one_way)),
            nemeses=tuple(n for n in nemeses if n not in self.nemeses),
            verbs=tuple(v for v in verbs if v not in self.verbs),
        )


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """What did not happen.

    Attributes:
        operations: never reached.
        concurrent: pairs of operations that two threads did in one run and that never overlapped.
        orders: the other way round of an order that was seen; many of them cannot be.
        nemeses: never struck.
        verbs: never used.
    """

    operations: tuple[str, ...] = ()
    concurrent: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    nemeses: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


def observe(trace: Sequence[Event], invariants: Iterable[str] = ()) -> Coverage:
    """Count what one trace shows."""
    seen = Coverage(runs=1)
    open_: dict[str, list[str]] = {}
    last: dict[str, Event] = {}
    threads: dict[str, set[str]] = {}
    for event in trace:
        operation, _, side = event.point.rpartition(".")
        if event.point.partition(".")[0] in _SELF_MADE:
            continue
        count(seen.points, [(event.point, 1)])
        threads.setdefault(operation, set()).add(_thread(event.actor))
        if side == "enter":
            for actor, inside in open_.items():
                if actor != event.actor:
                    for other in inside:
                        a, b = sorted((operation, other))
                        count(seen.concurrent, [(f"{a} || {b}", 1)])
            open_.setdefault(event.actor, []).append(operation)
        elif operation in open_.get(event.actor, ()):
            open_[event.actor].remove(operation)
        before = last.get(event.key) if event.key else None
        if before is not None and before.actor != event.actor:
            count(seen.orders, [(f"{before.point} < {event.point}", 1)])
        last[event.key] = event
    count(seen.possible, ((pair, 1) for pair in _pairs(threads)))
    count(seen.invariants, ((i, 1) for i in invariants))
    return seen


def _thread(actor: str) -> str:
    return actor if actor.endswith(_THREADS) else "scheduler"


def _pairs(threads: dict[str, set[str]]) -> Iterator[str]:
    """Pairs of operations that were done by two threads, one each."""
    operations = sorted(o for o in threads if o in OPERATIONS)
    for i, a in enumerate(operations):
        for b in operations[i:]:
            if len(threads[a] | threads[b]) > 1:
                yield f"{a} || {b}"


def count(into: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    """Add counts."""
    for name, n in more:
        into[name] = into.get(name, 0) + n
