"""Operations of fuzzed programs, and which sequences of them are legal.

What legal means, so that a sound target has no finding:

* A stage's verbs come from its scheduler. An output belongs to a request that its scheduler holds, except
  ``late``: one more output after the abort of a request, or after its end when everything was sent.
* An id is used again when both stages are done with its last request, which is released. Until the save
  thread has done what was queued, the new request may be refused on record; then both stages abort it (I30,
  I32).
* A consumer registers for a later request of an id when the producer's queue is drained: until then the
  chunks of the earlier one are being reclaimed (I38c). Where even the terminal may have been queued, it
  registers when the first chunk of the new request is there.
* A release comes when every stage is done, or while the producer still emits, where it has no effect (I50);
  before the first output it would mean the last request of the id.
* A stage that ends or is started again has dropped its requests; the other stage aborts them.
* A thinker feeds a request from its admission on, and is done with it before the id is used again. The talker
  may end a request that it has not heard to the end; what it emits does not depend on what it heard.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["EAGER", "LABELS", "LANES", "RELAY_VERBS", "RUSH", "SESSION", "VERBS", "Op", "Rules"]

VERBS = {
    "admit": "talker",
    "emit": "talker",
    "segment": "talker",
    "end": "talker",
    "late": "talker",
    "release": "talker",
    "restart": "talker",
    "stop": "talker",
    "join": "code2wav",
    "read": "code2wav",
    "finish": "code2wav",
    "abort": "client",
    "leave": "client",
    "sync": "",
    "tick": "talker",
    "hear": "talker",
    "feed": "thinker",
    "close": "thinker",
}
"""Verb -> the actor that does it; ``sync`` is a meeting of all actors."""
LANES = ("talker", "code2wav", "client", "thinker")
RELAY_VERBS = frozenset({"tick", "hear", "feed", "close"})
"""Verbs of programs of three stages, whose talker receives too."""
_TWO_STAGES = frozenset({"segment", "restart", "stop"})
LABELS = ("R", "R_1", "R_1_2")
"""External ids that look alike (I21)."""
SESSION, EAGER, RUSH = 1, 2, 4
"""Bits of ``admit``: a session of several segments; while the last request of the id is being reclaimed;
while its terminal may still be queued."""
_MAX = {"sync": 2, "restart": 1, "late": 1, "release": 2, "tick": 6}


class Op(msgspec.Struct, frozen=True, array_like=True):
    """A verb, an external id, and a number (frames, ticks, bits of ``admit``, order of ``abort``)."""

    verb: str
    label: str = ""
    n: int = 0

    def __str__(self) -> str:
        inside = ", ".join(filter(None, [self.label, str(self.n) if self.n else ""]))
        return f"{self.verb}({inside})"


class _Label:
    """Where one external id stands: each stage's side of its newest request."""

    __slots__ = ("consumer", "emitted", "generation", "heard", "producer", "session", "thinker")

    def __init__(self) -> None:
        self.generation, self.session, self.emitted, self.heard = 0, False, False, False
        self.producer, self.consumer, self.thinker = "none", "none", "none"

    @property
    def closed(self) -> bool:
        done = self.producer in ("ended", "aborted") and self.consumer == "over" and self.thinker != "open"
        return not self.generation or done


class Rules:
    """The rules of this module as a state machine over a sequence of operations.

    Args:
        stages: 2, or 3 for a talker that receives too.
    """

    def __init__(self, stages: int = 2) -> None:
        self.stages = stages
        self.labels: dict[str, _Label] = {}
        self.counts: dict[str, int] = {}
        self.stopped = False

    @classmethod
    def legal(cls, ops: Sequence[Op], stages: int = 2) -> bool:
        """Tell whether a whole program keeps the rules and leaves no request open."""
        rules = cls(stages)
        for op in ops:
            if op.verb not in VERBS or not rules.allows(op):
                return False
            rules.apply(op)
        return rules.closed

    @property
    def closed(self) -> bool:
        """No request is open."""
        return all(x.closed for x in self.labels.values())

    def allows(self, op: Op) -> bool:
        """Tell whether the operation may come next."""
        if self.stopped or self.counts.get(op.verb, 0) >= _MAX.get(op.verb, 99):
            return False
        if op.verb in (_TWO_STAGES if self.stages > 2 else RELAY_VERBS):
            return False
        at = self.labels.get(op.label) or _Label()
        match op.verb:
            case "admit":
                plain = self.stages == 2 or not op.n & SESSION
                return plain and (not at.generation or at.closed)
            case "feed" | "close":
                return at.thinker != "ended" and at.producer in ("live", "ended") and not at.closed
            case "hear":
                return at.producer == "live" and not at.heard and (op.n > 0 or at.thinker == "ended")
            case "emit" | "end":
                return at.producer == "live"
            case "segment":
                return at.producer == "live" and at.session
            case "late":
                return at.producer in ("ended", "aborted") and not at.session
            case "release":
                live = at.producer == "live" and at.emitted
                return live or (at.producer == "ended" and at.consumer == "over")
            case "join":
                return at.producer in ("live", "ended") and at.consumer == "none"
            case "read" | "leave":
                return at.consumer == "joined"
            case "finish":
                return at.consumer == "joined" and at.producer == "ended"
            case "abort":
                return at.producer == "live" or (at.producer == "ended" and at.consumer != "over")
        return True

    def apply(self, op: Op) -> None:
        """Do what an allowed operation does to the state."""
        self.counts[op.verb] = self.counts.get(op.verb, 0) + 1
        at = self.labels.setdefault(op.label, _Label()) if op.label else _Label()
        match op.verb:
            case "admit":
                at.generation, at.session = at.generation + 1, bool(op.n & SESSION)
                at.producer, at.consumer, at.thinker = "live", "none", "none"
                at.emitted = at.heard = False
            case "feed":
                at.thinker = "open"
            case "close":
                at.thinker = "ended"
            case "hear":
                at.heard = not op.n
            case "emit":
                at.emitted = True
            case "end":
                at.producer = "ended"
            case "join":
                at.consumer = "joined"
            case "finish" | "leave":
                at.consumer = "over"
            case "abort":
                at.consumer, at.thinker = "over", "ended"
                at.producer = "aborted" if at.producer == "live" else at.producer
            case "restart" | "stop":
                self.stopped = op.verb == "stop"
                for each in self.labels.values():
                    if each.generation and not each.closed:
                        each.producer, each.consumer = "aborted", "over"
