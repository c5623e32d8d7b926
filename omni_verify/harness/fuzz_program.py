"""Random programs over the verbs of a producer and its consumer, legal by construction.

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
"""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from omni_verify.errors import UsageError

__all__ = ["LANES", "VERBS", "Op", "Program", "Rules", "generate", "smaller"]

Draw = Callable[[], float]

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
}
"""Verb -> the actor that does it; ``sync`` is a meeting of all actors."""
LANES = ("talker", "code2wav", "client")
LABELS = ("R", "R_1", "R_1_2")
"""External ids that look alike (I21)."""
SESSION, EAGER, RUSH = 1, 2, 4
"""Bits of ``admit``: a session of several segments; while the last request of the id is being reclaimed;
while its terminal may still be queued."""
_WEIGHTS = {
    "admit": 5,
    "emit": 9,
    "segment": 4,
    "end": 4,
    "late": 1,
    "release": 1,
    "restart": 0.4,
    "join": 6,
    "read": 3,
    "finish": 6,
    "abort": 1.5,
    "leave": 0.8,
    "sync": 1,
}
_MAX = {"sync": 2, "restart": 1, "late": 1, "release": 2}


class Op(msgspec.Struct, frozen=True, array_like=True):
    """One operation: a verb, an external id, and a number (frames, bits of ``admit``, order of ``abort``)."""

    verb: str
    label: str = ""
    n: int = 0

    def __str__(self) -> str:
        inside = ", ".join(filter(None, [self.label, str(self.n) if self.n else ""]))
        return f"{self.verb}({inside})"


class Program(msgspec.Struct, frozen=True, array_like=True):
    """What one fuzzed run does.

    Attributes:
        ops: the operations; each actor does its own in this order, actors meet only where it says so.
        nemeses: names of those that may strike.
        chunk: frames that make a chunk; 0 for one chunk an output.
        connector: ``"other"`` for a connector of another class, empty for the one under test.
    """

    ops: tuple[Op, ...]
    nemeses: tuple[str, ...] = ()
    chunk: int = 0
    connector: str = ""

    def encode(self) -> str:
        """Text form for tokens: base64url of the compressed program."""
        packed = zlib.compress(msgspec.msgpack.encode(self), 9)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Program:
        """Read what `encode` wrote.

        Raises:
            UsageError: it is damaged, or no legal program.
        """
        try:
            packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            program = msgspec.msgpack.decode(zlib.decompress(packed), type=cls)
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            raise UsageError(
                f"not a fuzzed program: {text[:40]!r} ({error}). Copy the whole token."
            ) from None
        if not Rules.legal(program.ops):
            raise UsageError(f"the program breaks its own rules: {' '.join(map(str, program.ops))}")
        return program

    def __str__(self) -> str:
        return " ".join(map(str, self.ops))


class _Label:
    """Where one external id stands: producer and consumer side of its newest request."""

    __slots__ = ("consumer", "emitted", "generation", "producer", "session")

    def __init__(self) -> None:
        self.generation, self.session, self.emitted = 0, False, False
        self.producer, self.consumer = "none", "none"

    @property
    def closed(self) -> bool:
        return not self.generation or (self.producer in ("ended", "aborted") and self.consumer == "over")


class Rules:
    """The rules of this module as a state machine over a sequence of operations."""

    def __init__(self) -> None:
        self.labels: dict[str, _Label] = {}
        self.counts: dict[str, int] = {}
        self.stopped = False

    @classmethod
    def legal(cls, ops: Sequence[Op]) -> bool:
        """Tell whether a whole program keeps the rules and leaves no request open."""
        rules = cls()
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
        at = self.labels.get(op.label) or _Label()
        match op.verb:
            case "admit":
                return not at.generation or at.closed
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
                at.producer, at.consumer, at.emitted = "live", "none", False
            case "emit":
                at.emitted = True
            case "end":
                at.producer = "ended"
            case "join":
                at.consumer = "joined"
            case "finish" | "leave":
                at.consumer = "over"
            case "abort":
                at.consumer = "over"
                at.producer = "aborted" if at.producer == "live" else at.producer
            case "restart" | "stop":
                self.stopped = op.verb == "stop"
                for each in self.labels.values():
                    if each.generation and not each.closed:
                        each.producer, each.consumer = "aborted", "over"


def generate(seed: int, nemeses: Sequence[str] = (), *, other_connector: bool = True) -> Program:
    """Make a legal program; the same seed gives the same program on every Python.

    Args:
        seed: any integer.
        nemeses: names to pick up to two from.
        other_connector: now and then use a connector of another class.
    """
    draw = random.Random(seed).random  # only random(): the derived methods differ between versions
    labels = LABELS[: 1 + int(draw() * draw() * 3.99)]
    rules = Rules()
    ops: list[Op] = []
    for _ in range(3 + int(draw() * draw() * 14)):
        _add(rules, ops, _pick(rules, labels, draw))
    if draw() < 0.12:
        _add(rules, ops, Op("stop"))
    while not rules.closed:
        _close(rules, ops, draw)
    chosen = (
        sorted({nemeses[int(draw() * len(nemeses))] for _ in range(int(draw() * 2.7))}) if nemeses else []
    )
    return Program(
        ops=tuple(ops),
        nemeses=tuple(chosen),
        chunk=3 if draw() < 0.25 else 0,
        connector="other" if other_connector and draw() < 0.04 else "",
    )


def _add(rules: Rules, ops: list[Op], op: Op) -> None:
    if rules.allows(op):
        rules.apply(op)
        ops.append(op)


def _pick(rules: Rules, labels: Sequence[str], draw: Draw) -> Op:
    """Draw one allowed operation by weight."""
    options: list[tuple[float, Op]] = []
    for verb, weight in _WEIGHTS.items():
        for label in labels if VERBS[verb] and verb != "restart" else ("",):
            op = Op(verb, label, _number(verb, draw))
            if rules.allows(op):
                options.append((weight, op))
    mark = draw() * sum(weight for weight, _ in options)
    for weight, op in options:
        mark -= weight
        if mark < 0:
            return op
    return options[-1][1]


def _number(verb: str, draw: Draw) -> int:
    value = draw()
    match verb:
        case "admit":
            haste = (0, 0, EAGER, EAGER | RUSH)[int(value * 400) % 4]
            return (SESSION if value < 0.3 else 0) | haste
        case "emit" | "read" | "late":
            return 1 + int(value * 3)
        case "segment" | "end":
            return int(value * 3)
        case "abort":
            return int(value * 2)
    return 0


def _close(rules: Rules, ops: list[Op], draw: Draw) -> None:
    """Bring the open requests to an end, one step each."""
    for label, at in rules.labels.items():
        if at.closed:
            continue
        if draw() < 0.1:
            _add(rules, ops, Op("abort", label, int(draw() * 2)))
            continue
        for op in (Op("join", label), Op("end", label, int(draw() * 3)), Op("finish", label)):
            _add(rules, ops, op)


def smaller(program: Program) -> Iterator[Program]:
    """Yield legal programs that are a step smaller, the boldest first."""
    replace = msgspec.structs.replace
    ops = program.ops
    for label in dict.fromkeys(op.label for op in ops if op.label):
        yield from _legal(program, tuple(op for op in ops if op.label != label))
    for size in (4, 3, 2, 1):
        for at in range(len(ops) - size, -1, -1):
            yield from _legal(program, ops[:at] + ops[at + size :])
    for at, op in enumerate(ops):  # operations of one request that only make sense together
        for later in range(at + 1, len(ops)):
            if ops[later].label == op.label:
                yield from _legal(program, ops[:at] + ops[at + 1 : later] + ops[later + 1 :])
    for name in program.nemeses:
        yield replace(program, nemeses=tuple(n for n in program.nemeses if n != name))
    if program.chunk:
        yield replace(program, chunk=0)
    if program.connector:
        yield replace(program, connector="")
    for at, op in enumerate(ops):
        least = 1 if op.verb in ("emit", "read", "late") else 0
        for n in range(least, op.n):
            yield from _legal(program, (*ops[:at], Op(op.verb, op.label, n), *ops[at + 1 :]))


def _legal(program: Program, ops: tuple[Op, ...]) -> Iterator[Program]:
    if ops and Rules.legal(ops):
        yield msgspec.structs.replace(program, ops=ops)
