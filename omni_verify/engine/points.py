"""Named points: the closed set of places that an actor can reach, and references to them.

A point is named after the operation. An operation has an ``enter`` point (before it) and an
``exit`` point (after it, also when it raised); a few points are single moments. The name survives
refactoring of a target, a line number does not. Text form of a reference::

    put.enter(R_1_0)          the first time that any actor enters a put of that key
    put.enter(R_1_0)#2        the second time
    client:abort.exit(R)      only when the actor `client` does it
    get.exit(*)               any key
"""

from __future__ import annotations

import re

import msgspec

from omni_verify.errors import UsageError, unknown_value
from omni_verify.trace.event import Event, Trace

__all__ = ["MOMENTS", "OPERATIONS", "PointRef", "point_names"]

OPERATIONS = {
    "put": "connector.put of one transfer key",
    "get": "connector.get of one transfer key",
    "cleanup": "connector.cleanup of one exact key",
    "cleanup_prefix": "connector.cleanup_prefix",
    "reap": "connector.reap_consumed",
    "close": "connector.close",
    "ser": "serialisation of a payload",
    "deser": "deserialisation of a payload",
    "seg.create": "creation of a segment's name",
    "seg.open": "opening of an existing segment by name",
    "seg.size": "sizing of a new segment",
    "seg.write": "creation and filling of a segment (the connector's write function)",
    "seg.fill": "writing the bytes into a segment that exists",
    "seg.read": "copying the bytes out of a segment",
    "seg.unlink": "removal of a segment's name",
    "lock.open": "opening (and creating) a lock file",
    "lock.flock": "taking the lock of a lock file",
    "lock.unlock": "releasing the lock of a lock file",
    "lock.remove": "removal of a lock file's name",
    "save": "adapter.save_async",
    "load": "adapter.load_async",
    "send": "execution of one queued save task on the save thread",
    "poll": "one poll of a registered request on the receive thread",
    "commit": "commit of a received chunk, lock held",
    "proc": "the producer-side processor",
    "abort": "the scheduler's abort verb (adapter.finish_requests)",
    "finish": "the scheduler's finish verb of one request",
    "cleanup_all": "adapter.cleanup (both sides)",
    "cleanup_receiver": "adapter.cleanup_receiver",
    "cleanup_sender": "adapter.cleanup_sender",
    "release": "adapter.release_shm_resources",
    "tick": "one scheduler tick of a stage",
    "shutdown": "adapter.shutdown",
    "step": "an operation that only this scenario has; the key names it",
}
"""Operations, each with an ``.enter`` and an ``.exit`` point."""

MOMENTS = {
    "idle.save": "the save thread found its queue empty and waits",
    "idle.recv": "the receive thread found nothing to do and waits",
    "actor.start": "an actor begins",
    "actor.end": "an actor has ended",
    "deliver": "a consumer stage hands a chunk to its model",
    "fault": "a nemesis struck",
    "mark": "a moment that only this scenario has; the key names it",
    "deque.append": "an item enters a shared deque",
    "deque.popleft": "an item leaves a shared deque",
    "process.start": "a peer process runs",
    "process.end": "a peer process has ended",
}
"""Points that are single moments."""

_REF = re.compile(
    r"(?:(?P<actor>[\w.-]+):)?(?P<point>[a-z_]+(?:\.[a-z_]+)*)(?:\((?P<key>.*)\))?(?:#(?P<nth>\d+))?"
)


def point_names() -> dict[str, str]:
    """Return every point name with what it means."""
    names = {
        f"{op}.{side}": f"{'before' if side == 'enter' else 'after'}: {doc}"
        for op, doc in OPERATIONS.items()
        for side in ("enter", "exit")
    }
    return dict(sorted({**names, **MOMENTS}.items()))


class PointRef(msgspec.Struct, frozen=True):
    """One reference: which point, of which key, by which actor, the how-manieth time.

    ``key`` is ``"*"`` for any key; ``actor`` is empty for any actor; ``nth`` counts from 1 and
    counts only events that match the rest of the reference.
    """

    point: str
    key: str = "*"
    actor: str = ""
    nth: int = 1

    @classmethod
    def parse(cls, text: str) -> PointRef:
        """Parse the text form.

        Raises:
            UsageError: it does not parse, or names no known point; the nearest name is given.
        """
        match = _REF.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"cannot read the point {text!r}; expected [ACTOR:]POINT[(KEY)][#N], e.g. put.enter(R_1_0)."
            )
        point = match["point"]
        if point not in point_names():
            raise unknown_value("point", point, point_names(), hint="List them with: omni-verify list points")
        nth = int(match["nth"] or 1)
        if nth < 1:
            raise UsageError(f"the point {text!r} can never happen: occurrences count from #1.")
        return cls(point, "*" if match["key"] is None else match["key"], match["actor"] or "", nth)

    def matches(self, actor: str, point: str, key: str) -> bool:
        """Tell whether an event of that actor, point and key is one that this reference counts."""
        return self.point == point and self.key in ("*", key) and self.actor in ("", actor)

    def find(self, trace: Trace) -> Event | None:
        """Return the event that it refers to, None when it has not happened."""
        count = 0
        for event in trace.at(self.point, self.key):
            if self.actor in ("", event.actor):
                count += 1
                if count == self.nth:
                    return event
        return None

    def count(self, trace: Trace) -> int:
        """Return how many events it counts so far, whatever its `nth`."""
        return sum(self.actor in ("", event.actor) for event in trace.at(self.point, self.key))

    def __str__(self) -> str:
        actor = f"{self.actor}:" if self.actor else ""
        key = "" if self.key == "*" else f"({self.key})"
        return f"{actor}{self.point}{key}{'' if self.nth == 1 else f'#{self.nth}'}"
