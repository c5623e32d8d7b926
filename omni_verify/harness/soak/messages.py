"""Messages between a soak and the process of a stage; every one is a tagged msgpack object."""

from __future__ import annotations

import msgspec

from omni_verify.checks.observation import Broken
from omni_verify.faults.nemeses import Strike
from omni_verify.harness.soak.plan import Plan

__all__ = [
    "Abort",
    "Command",
    "Figures",
    "Forget",
    "Hello",
    "Inspect",
    "News",
    "Over",
    "Quiesce",
    "Quiet",
    "Report",
    "StageOptions",
    "Stop",
    "Submit",
    "decode_command",
    "decode_report",
    "encode",
]


class StageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a stage needs to know.

    Attributes:
        spec, loader: the target.
        stage: number of the stage, from 0.
        stages: how many there are.
        prefix: of every external id.
        link: path of the soak's socket.
        log: file for what the process writes.
        isolation: ``"mount"`` or ``"prefix"``.
        nemeses: names that may strike.
        rate: probability of a strike at each chance.
        leak: bytes that the process retains for each abort, 0 for none: a seeded leak.
        seed: of the strikes.
        load_s: seconds after which a hanging load ends the process.
    """

    spec: str
    loader: str = "auto"
    stage: int
    stages: int
    prefix: str
    link: str = ""
    log: str = ""
    isolation: str = "prefix"
    nemeses: tuple[str, ...] = ()
    rate: float = 0.0
    leak: int = 0
    seed: int = 0
    load_s: float = 180.0

    @property
    def name(self) -> str:
        """How figures and findings call it."""
        return f"stage{self.stage}"


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Admit requests."""

    plans: list[Plan]


class Abort(msgspec.Struct, frozen=True, tag=True):
    """The clients of these requests have left; `at_once`: whatever the plans say, they failed elsewhere."""

    indices: list[int]
    at_once: bool = False


class Forget(msgspec.Struct, frozen=True, tag=True):
    """Every stage is done with these requests; `release`: what they left unread goes too."""

    indices: list[int]
    release: bool = True


class Quiesce(msgspec.Struct, frozen=True, tag=True):
    """No request is live: come to rest, then answer with `Quiet`."""

    number: int


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Measure from inside; `collect` runs the garbage collector first, `trim` gives back free memory too."""

    number: int
    collect: bool = False
    trim: bool = False


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Shut down in order and end."""


Command = Submit | Abort | Forget | Quiesce | Inspect | Stop


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The target is loaded and the stage takes requests; sent once."""

    stage: int
    pid: int
    info: bytes


class Over(msgspec.Struct, frozen=True, kw_only=True):
    """A stage is done with a request.

    Attributes:
        index, generation: which one.
        status: ``done``, ``left``, ``aborted`` (the stage was told so) or ``failed``.
        chunks: how many it emitted or delivered.
        first, total: seconds from submission to the first chunk and to the end; 0 when there was none.
        gaps: seconds between chunks.
        broken: contracts that its stream broke.
        error: what the target reported, for a failed one.
    """

    index: int
    generation: int
    status: str
    chunks: int = 0
    first: float = 0.0
    total: float = 0.0
    gaps: list[float] = []
    broken: list[Broken] = []
    error: str = ""


class News(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What happened in one round of a stage.

    Attributes:
        over: requests that it is done with.
        left: requests whose client has left here; the other stages must be told.
        forgotten: requests of which nothing is left here.
        strikes: of nemeses.
        raised: exceptions that came out of the target's verbs, in words.
    """

    over: list[Over] = []
    left: list[int] = []
    forgotten: list[int] = []
    strikes: list[Strike] = []
    raised: list[str] = []


class Quiet(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The stage is at rest.

    Attributes:
        counts: entries that name a request of this run, by container.
        entries: examples of them, by container.
        dead: threads of the target that have ended.
    """

    number: int
    counts: dict[str, int] = {}
    entries: dict[str, list[str]] = {}
    dead: list[str] = []


class Figures(msgspec.Struct, frozen=True, tag=True):
    """What `Inspect` found, by figure name without the stage's name."""

    number: int
    values: dict[str, float]


Report = Hello | News | Quiet | Figures
_COMMANDS = msgspec.msgpack.Decoder(Command)
_REPORTS = msgspec.msgpack.Decoder(Report)


def encode(message: Command | Report) -> bytes:
    """Encode one message."""
    return msgspec.msgpack.encode(message)


def decode_command(body: bytes) -> Command:
    """Decode what a stage gets."""
    return _COMMANDS.decode(body)


def decode_report(body: bytes) -> Report:
    """Decode what a stage says."""
    return _REPORTS.decode(body)
