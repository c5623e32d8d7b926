"""Random legal programs, and the steps in which a failing one shrinks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec

from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.rules import (
    EAGER,
    LABELS,
    RELAY_VERBS,
    RUSH,
    SESSION,
    Op,
    Rules,
)

__all__ = ["generate", "smaller"]

Draw = Callable[[], float]

_RELAYS = 0.35
"""Share of programs whose talker receives too."""
_HASTY = 0.4
"""Share of these whose ids are used again at once."""
_WITHOUT_LABEL = ("sync", "restart", "stop", "tick")
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
    "tick": 5,
    "hear": 4,
    "feed": 5,
    "close": 3,
}


def generate(seed: int, nemeses: Sequence[str] = (), *, other_connector: bool = True) -> Program:
    """Make a legal program; the same seed gives the same program on every Python.

    Args:
        seed: any integer.
        nemeses: names to pick up to two from.
        other_connector: now and then use a connector of another class.
    """
    draw = random.Random(seed).random  # only random(): the derived methods differ between versions
    stages = 3 if draw() < _RELAYS else 2
    many = draw() * draw() * 3.99 if stages == 2 else draw() * 2.5
    labels = LABELS[: 1 + int(many)]
    rules = Rules(stages)
    haste = EAGER | RUSH if stages == 3 and draw() < _HASTY else 0
    ops: list[Op] = []
    for _ in range(3 + int(draw() * draw() * 14) + (5 if stages == 3 else 0)):
        op = _pick(rules, labels, draw, {"leave": 3.0, "admit": 2.0} if haste else {})
        _add(rules, ops, Op(op.verb, op.label, op.n | haste) if op.verb == "admit" else op)
    if draw() < 0.12 and stages == 2:
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
        stages=stages,
    )


def _add(rules: Rules, ops: list[Op], op: Op) -> None:
    if rules.allows(op):
        rules.apply(op)
        ops.append(op)


def _pick(rules: Rules, labels: Sequence[str], draw: Draw, more: dict[str, float]) -> Op:
    """Draw one allowed operation by weight; `more` multiplies the weight of a verb."""
    options: list[tuple[float, Op]] = []
    for verb, weight in _WEIGHTS.items():
        for label in ("",) if verb in _WITHOUT_LABEL else labels:
            op = Op(verb, label, _number(verb, draw, rules.stages))
            if rules.allows(op):
                options.append((weight * more.get(verb, 1.0), op))
    mark = draw() * sum(weight for weight, _ in options)
    for weight, op in options:
        mark -= weight
        if mark < 0:
            return op
    return options[-1][1]


def _number(verb: str, draw: Draw, stages: int) -> int:
    value = draw()
    match verb:
        case "admit":
            haste = (0, 0, EAGER, EAGER | RUSH)[int(value * 400) % 4]
            return (SESSION if value < 0.3 and stages == 2 else 0) | haste
        case "emit" | "read" | "late" | "feed":
            return 1 + int(value * 3)
        case "tick":
            return 1 + int(value * 4)
        case "segment" | "end" | "close" | "hear":
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
        if at.thinker == "open":
            _add(rules, ops, Op("close", label, int(draw() * 3)))
        if rules.stages > 2 and draw() < 0.7:
            _add(rules, ops, Op("hear", label))
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
    if program.stages > 2:
        yield from _two_stages(program)
    for name in program.nemeses:
        yield replace(program, nemeses=tuple(n for n in program.nemeses if n != name))
    if program.chunk:
        yield replace(program, chunk=0)
    if program.connector:
        yield replace(program, connector="")
    for at, op in enumerate(ops):
        least = 1 if op.verb in ("emit", "read", "late", "feed", "tick") else 0
        for n in range(least, op.n):
            yield from _legal(program, (*ops[:at], Op(op.verb, op.label, n), *ops[at + 1 :]))


def _two_stages(program: Program) -> Iterator[Program]:
    ops = tuple(op for op in program.ops if op.verb not in RELAY_VERBS)
    yield from _legal(msgspec.structs.replace(program, stages=2), ops)


def _legal(program: Program, ops: tuple[Op, ...]) -> Iterator[Program]:
    if ops and Rules.legal(ops, program.stages):
        yield msgspec.structs.replace(program, ops=ops)
