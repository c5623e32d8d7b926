"""What a soak shall do; kept in its checkpoint, so that a resumed soak goes on with the same."""

from __future__ import annotations

import msgspec

from omni_verify.checks.trend.settings import settings_from
from omni_verify.errors import UsageError, unknown_value
from omni_verify.faults.nemeses import nemeses
from omni_verify.harness.soak.besieged import VIRTUAL
from omni_verify.harness.soak.plan import mix_of

__all__ = ["Schedule", "SoakOptions", "nemeses_of"]

_CYCLES, _CONTROL_SHARE = 4, 0.25
_WARM_UP_REQUESTS, _WARM_UP_SHARE, _WARM_UP_S = 500, 0.1, 120.0


class SoakOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a soak does.

    Attributes:
        target, loader: as the user names the target.
        stages: processes that a request passes.
        url, pids: an external server instead of own stages, and the processes to measure.
        endpoint: ``chat`` or ``speech`` of that server.
        requests: end after so many; 0 for none.
        duration_s: end the load after so many seconds; 0 for none. One of the two is given.
        mix: name or shares, see `omni_verify.harness.soak.plan.mix_of`.
        seed: of the plans and of the strikes.
        concurrency: requests in flight at most.
        rate: requests a second, 0 for as many as the concurrency lets through.
        nemeses: names of what may strike, ``leak:BYTES`` for a seeded leak included.
        nemesis_rate: probability of a strike at each chance.
        nemesis_every_s: seconds between two strikes at a whole process.
        quiesce_every: requests between two quiescent points; 0 lets time decide.
        sample_s: seconds between two samples; 0 chooses by the duration.
        idle_s: length of the idle phase; 0 chooses by the duration.
        request_s: seconds after which a request hangs.
        isolation: ``auto``, ``mount`` or ``prefix``.
        thresholds: of the trend verdict that differ from their defaults, each ``NAME=VALUE``.
    """

    target: str = "reference"
    loader: str = "auto"
    stages: int = 2
    url: str = ""
    pids: tuple[int, ...] = ()
    endpoint: str = "chat"
    requests: int = 0
    duration_s: float = 0.0
    mix: str = "default"
    seed: int = 0
    concurrency: int = 16
    rate: float = 0.0
    nemeses: tuple[str, ...] = ()
    nemesis_rate: float = 0.001
    nemesis_every_s: float = 0.0
    quiesce_every: int = 0
    sample_s: float = 0.0
    idle_s: float = 0.0
    request_s: float = 20.0
    isolation: str = "auto"
    thresholds: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: says which option.
        """
        if bool(self.requests) == bool(self.duration_s):
            raise UsageError("give either --requests or --duration, the end of the load.")
        if self.stages not in (2, 3):
            raise UsageError(f"--stages is 2 or 3, got {self.stages}.")
        if not 0 <= self.nemesis_rate <= 1:
            raise UsageError(f"--nemesis-rate is a probability, got {self.nemesis_rate:g}.")
        for option, value, least, most in self._bounds():
            if not least <= value <= most:
                raise UsageError(f"{option} lies between {least:,.12g} and {most:,.12g}, got {value:g}.")
        if not (self.url or self.target).isprintable():
            raise UsageError(f"a target is named by printable characters, got {self.url or self.target!r}.")
        mix_of(self.mix)
        points, processes, leak = nemeses_of(self.nemeses)
        if self.url and (points or leak):
            inside = ", ".join((*points, *(["leak"] if leak else [])))
            can = ", ".join(n for n, spec in nemeses().items() if spec.processes)
            raise UsageError(f"{inside} cannot strike in a server that somebody else runs: only {can} can.")
        if self.url and processes and not self.pids:
            raise UsageError(f"{', '.join(processes)} strike at processes: name that of the server by --pid.")
        settings_from(self.thresholds)

    def _bounds(self) -> tuple[tuple[str, float, float, float], ...]:
        """Options with the least and the most that a soak can run; some are fields of 64 bits."""
        return (
            ("--requests", self.requests, 0, 1e15),
            ("--rate", self.rate, 0, 1e9),
            ("--concurrency", self.concurrency, 1, 10_000),
            ("--seed", self.seed, -(2**63), 2**63 - 1),
            ("--quiesce-every", self.quiesce_every, 0, 1e15),
        )

    @property
    def sample_period_s(self) -> float:
        """Seconds between two samples."""
        return self.sample_s or (min(30.0, max(0.5, self.duration_s / 400)) if self.duration_s else 0.5)

    @property
    def idle_length_s(self) -> float:
        """Seconds of the idle phase."""
        return self.idle_s or (min(300.0, max(3.0, self.duration_s / 30)) if self.duration_s else 5.0)

    @property
    def quiesce_requests(self) -> int:
        """Requests between two quiescent points; 0: only time decides."""
        return self.quiesce_every or (max(100, self.requests // 20) if self.requests else 0)

    @property
    def quiesce_period_s(self) -> float:
        """Seconds between two quiescent points where time decides."""
        return min(300.0, max(2.0, self.duration_s / 40))

    @property
    def process_period_s(self) -> float:
        """Seconds between two strikes at a process."""
        return self.nemesis_every_s or (
            min(120.0, max(5.0, self.duration_s / 12)) if self.duration_s else 20.0
        )


class Schedule:
    """Which phase a soak is in, by its progress; the phases are those of `audit.series.PHASES`.

    Warm-up, then four cycles of load and control (a quarter of each); idle and trim follow the load.
    """

    def __init__(self, options: SoakOptions) -> None:
        self._options = options
        if options.requests:
            self._warm = min(_WARM_UP_REQUESTS / options.requests, _WARM_UP_SHARE)
        else:
            self._warm = min(_WARM_UP_SHARE, _WARM_UP_S / options.duration_s)

    def progress(self, started: int, elapsed_s: float) -> float:
        """How much of the load is done, 0 to 1."""
        if self._options.requests:
            return min(1.0, started / self._options.requests)
        return min(1.0, elapsed_s / self._options.duration_s)

    def phase(self, progress: float) -> str:
        """Phase of the load at this progress."""
        if progress < self._warm:
            return "warm-up"
        cycle = (progress - self._warm) / (1.0 - self._warm) * _CYCLES
        return "control" if cycle % 1.0 >= 1.0 - _CONTROL_SHARE else "load"


def nemeses_of(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Split names into those that strike at points, those that strike at processes, and bytes of a leak.

    ``all`` stands for every nemesis that can strike on a real machine's clock.

    Raises:
        UsageError: no such nemesis, or one that only exploration has.
    """
    known = nemeses()
    leak = 0
    wanted: list[str] = []
    for name in names:
        if name.startswith("leak:"):
            text = name[5:]
            if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text)):
                raise UsageError(
                    f"a seeded leak names its bytes per abort, for example leak:1024; got {name!r}."
                )
            leak = int(text)
        elif name == "all":
            wanted += [n for n in known if n not in VIRTUAL]
        elif name != "none":
            wanted.append(name)
    for name in wanted:
        if name in VIRTUAL:
            raise UsageError(
                f"{name} strikes at the virtual clock of explore and fuzz; a soak has a real one."
            )
        if name not in known:
            raise unknown_value("nemesis", name, known, hint="List them with: omni-verify list nemeses")
    unique = tuple(dict.fromkeys(wanted))
    return (
        tuple(n for n in unique if not known[n].processes),
        tuple(n for n in unique if known[n].processes),
        leak,
    )
