"""What the checks look at: everything that one run showed, in one value."""

from __future__ import annotations

import msgspec

from omni_verify.trace.event import Event

__all__ = ["Broken", "Delivered", "Leftover", "Observation", "Sent"]


class Sent(msgspec.Struct, kw_only=True):
    """What one producer-side request handed to its adapter.

    Attributes:
        label: external id without the run's prefix.
        stage: label of the producing stage.
        generation: how-manieth request under that id on that stage, from 1.
        frames: how many frames were emitted, all segments together.
        ended: its end (terminal) was handed over.
        aborted: the scheduler aborted it.
        refused: the adapter recorded that it refused or lost data of it.
    """

    label: str
    stage: str
    generation: int
    frames: int = 0
    ended: bool = False
    aborted: bool = False
    refused: str = ""


class Delivered(msgspec.Struct, kw_only=True):
    """What one consumer-side request got.

    Attributes:
        label, stage, generation: as in `Sent`.
        frames: (stream label, generation, index) of each frame, in order of delivery.
        broken: unreadable columns, in words.
        finishes: how often the end of the stream was seen.
        boundaries: how many segment ends were seen.
        error: why it was ended with an error; empty when it was not.
        aborted: the scheduler aborted it.
        waiting: it still waited for a chunk when nothing could arrive any more.
        sender: label of the producing stage, where several stages send under one id; else empty.
    """

    label: str
    stage: str
    generation: int
    frames: list[tuple[str, int, int]] = []
    broken: list[str] = []
    finishes: int = 0
    boundaries: int = 0
    error: str = ""
    aborted: bool = False
    waiting: bool = False
    sender: str = ""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a container that outlived its request: where it is and what it is."""

    owner: str
    container: str
    entry: str


class Observation(msgspec.Struct, kw_only=True):
    """Everything that one run showed.

    Attributes:
        trace: events in order.
        sent, delivered: the ledger.
        quiet: names left under /dev/shm when no request was live and every queue was empty.
        closed: names left after every adapter was shut down and every connector closed.
        leftovers: entries of adapter and connector containers at the quiet point.
        growth: containers that grew with the number of finished requests, in words.
        dead_threads: target threads that had ended before they were asked to.
        failures: actor -> exception text, for verbs of the target that raised.
        blocked: (invariant, text) of actors that a declared order forbids to be blocked.
        cut: why the run was cut off, empty when it was not; what is seen after a cut is our doing.
    """

    trace: list[Event] = []
    sent: list[Sent] = []
    delivered: list[Delivered] = []
    quiet: list[str] | None = None
    closed: list[str] | None = None
    leftovers: list[Leftover] | None = None
    growth: list[str] = []
    dead_threads: list[str] | None = None
    failures: dict[str, str] = {}
    blocked: list[tuple[str, str]] = []
    cut: str = ""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A broken contract before it is attributed.

    Attributes:
        family: invariants that this observation can break; a case that declares some of them gets
            one finding for each, a case that declares none gets a side finding on the first.
        message, expected, found, key, evidence: as in `verdict.Finding`.
    """

    family: tuple[str, ...]
    message: str
    expected: str = ""
    found: str = ""
    key: str = ""
    evidence: dict[str, object] = {}
