"""What the requests of a soak do: a mix of kinds; the plan of each is a function of (seed, number)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import msgspec

from omni_verify.errors import UsageError, unknown_value

__all__ = ["KINDS", "LEAVING", "MIXES", "Mix", "Plan", "mix_of", "plan_of"]

KINDS = ("normal", "abort-before", "abort-mid", "stop-early", "reuse")
"""Kinds of requests: read to the end; aborted before the first chunk is delivered; aborted in mid-stream;
the consumer stops early while its producer goes on to the end; the id is used again after its release."""
LEAVING = ("abort-before", "abort-mid", "stop-early")
"""Kinds whose client leaves: they are normal in a control phase and count as aborted elsewhere."""


_SIZES = {"least": 10_000, "most": 10_000, "frames": 10_000}
"""Numbers that give the size of a stream, with the most that is taken for no typing error."""


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the kinds, and the size of a stream.

    Attributes:
        name: how a user names it.
        shares: weight by kind; they need not add up to 1.
        least, most: chunks of a stream.
        frames: codec frames of a chunk.
        in_flight: share of the aborts that reach the producer while puts are queued or running; the others
            reach it at rest, so that what lies unread then is known exactly.
    """

    name: str
    shares: Mapping[str, float]
    least: int = 2
    most: int = 8
    frames: int = 4
    in_flight: float = 0.5


_SHARES = {"normal": 70.0, "abort-before": 10.0, "abort-mid": 10.0, "stop-early": 5.0, "reuse": 5.0}
MIXES = {
    m.name: m
    for m in (
        Mix(name="default", shares=_SHARES),
        Mix(name="settled", shares=_SHARES, in_flight=0.0),
        Mix(name="aborts", shares={"normal": 20.0, "abort-before": 40.0, "abort-mid": 40.0}),
        Mix(name="normal", shares={"normal": 100.0}),
    )
}
"""``default``: 70 % normal, 10 % aborted before the first chunk, 10 % in mid-stream, 5 % stopped early, 5 %
with a reused id. ``settled``: the same without puts in flight. ``aborts``: mostly aborts. ``normal``: nobody
leaves."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one request does.

    Attributes:
        index: number of the request in its soak, from 0.
        kind: one of `KINDS`.
        chunks: how many the producer emits.
        reads: how many the consumer takes before it leaves; -1 for all.
        frames: codec frames of a chunk.
        flight: the abort reaches the producer with puts queued or running.
        linger: chunks that the producer has emitted at least when an abort in flight takes effect.
        generation: how-manieth request under its id.
        submitted: monotonic seconds, shared by all processes of the machine.
    """

    index: int
    kind: str
    chunks: int
    reads: int = -1
    frames: int = 4
    flight: bool = False
    linger: int = 0
    generation: int = 1
    submitted: float = 0.0

    @property
    def label(self) -> str:
        """External id without the run's prefix."""
        return f"r{self.index}"

    @property
    def leaves(self) -> bool:
        """Whether the client leaves before the end."""
        return self.kind in LEAVING

    @property
    def aborts(self) -> bool:
        """Whether the producer is told that the client has left."""
        return self.kind in ("abort-before", "abort-mid")

    @property
    def unread(self) -> int:
        """Chunks that lie unread when a leaver is done, if no put was in flight; its terminal included."""
        if self.reads < 0:
            return 0
        return self.chunks - self.reads + (not self.aborts)


def plan_of(seed: int, index: int, mix: Mix, *, leavers: bool = True) -> Plan:
    """Return the plan of one request; the same arguments give the same plan on every machine.

    Args:
        seed: of the soak.
        index: number of the request.
        mix: shares and sizes.
        leavers: False makes every leaver a normal request (control phase), with the same stream.
    """
    dice = random.Random(f"{seed}/{index}")
    kind = dice.choices(list(mix.shares), list(mix.shares.values()))[0]
    chunks = dice.randint(mix.least, mix.most)
    part = dice.randint(1, max(1, chunks - 1))
    flight = dice.random() < mix.in_flight
    linger = dice.randint(0, chunks)
    if kind in LEAVING and not leavers:
        kind = "normal"
    reads = 0 if kind == "abort-before" else part if kind in LEAVING else -1
    return Plan(
        index=index,
        kind=kind,
        chunks=chunks,
        reads=reads,
        frames=mix.frames,
        flight=flight and kind in ("abort-before", "abort-mid"),
        linger=linger,
    )


def _number(name: str, text: str) -> float:
    """Read a share or a size; one that no soak could run is refused before it starts."""
    most, kind = _SIZES.get(name, 1e9), "whole number" if name in _SIZES else "number"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most or (name in _SIZES and value % 1):
        raise UsageError(f"{name} of a mix is a {kind} from 0 to {most:,.0f}, got {text!r}.")
    return value


def mix_of(text: str) -> Mix:
    """Read a mix: the name of one, or ``kind=share,...`` with ``least``, ``most``, ``frames``, ``in-flight``.

    Raises:
        UsageError: no such mix or kind, a number that cannot be, or shares that are all zero.
    """
    if "=" not in text:
        if text not in MIXES:
            raise unknown_value("mix", text, MIXES, hint="Or give shares: normal=80,abort-mid=20")
        return MIXES[text]
    given: dict[str, float] = {}
    for part in text.split(","):
        name, value = (each.strip() for each in (*part.split("=", 1), "")[:2])
        if name not in (*KINDS, *_SIZES, "in-flight"):
            raise unknown_value("kind of request", name, (*KINDS, *_SIZES, "in-flight"))
        if name in given:
            raise UsageError(f"{name} stands twice in the mix {text!r}; give it once.")
        given[name] = _number(name, value)
    default = MIXES["default"]
    mix = Mix(
        name=text,
        shares={k: given[k] for k in KINDS if given.get(k)},
        least=int(given.get("least", default.least)),
        most=int(given.get("most", default.most)),
        frames=int(given.get("frames", default.frames)),
        in_flight=given.get("in-flight", default.in_flight),
    )
    if not mix.shares or not 1 <= mix.least <= mix.most or mix.frames < 1 or mix.in_flight > 1:
        raise UsageError(
            f"the mix {text!r} cannot be: at least one share is positive, 1 <= least <= most, frames >= 1, "
            "and in-flight is a share from 0 to 1."
        )
    if mix.least < 2 and {"abort-mid", "stop-early"} & set(mix.shares):
        raise UsageError(
            "a client that leaves in mid-stream needs least=2 chunks: one to read, one to leave."
        )
    return mix
