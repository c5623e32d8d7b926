"""Soak a system: load it for a long time, measure it, judge what it left and whether it grew."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from omni_verify.audit.sampler_latency import Histogram
from omni_verify.audit.series import Sample, UnwritableError
from omni_verify.campaign.soak import record as soak_record
from omni_verify.campaign.soak.faults import ProcessFaults
from omni_verify.campaign.soak.ledger import Findings, Ledger
from omni_verify.campaign.soak.options import Schedule, SoakOptions, nemeses_of
from omni_verify.campaign.soak.record import Checkpoint, Point
from omni_verify.campaign.soak.requests import Requests
from omni_verify.campaign.soak.rest import Rest
from omni_verify.campaign.soak.samples import Samples
from omni_verify.campaign.soak.system import Death, SoakSystem
from omni_verify.faults.nemeses import nemeses
from omni_verify.harness.soak.messages import Figures, News, Quiet, Report
from omni_verify.harness.soak.plan import mix_of

__all__ = ["Progress", "Soak", "Tell"]

CHECKPOINT_S = 5.0
"""Seconds between two checkpoints."""
POLL_S = 0.05
TRIM_SAMPLES, TRIM_GAP_S = 8, 0.25
"""Samples of the phase trim, and seconds between them."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a soak, for a live report.

    Attributes:
        phase, progress: where it is; progress of the load from 0 to 1.
        elapsed_s: since the soak began, earlier parts of a resumed one included.
        rate: requests a second, over the last seconds.
        sample: the newest one.
        flying: requests in flight.
        findings: distinct ones so far.
    """

    phase: str
    progress: float
    elapsed_s: float
    rate: float
    sample: Sample
    flying: int
    findings: int


Tell = Callable[[Progress], None]


class Soak:
    """One soak, from a started system to its last sample; the verdict is made of what it has kept.

    Args:
        system: started.
        options: checked.
        folder: for series and checkpoint.
        tell: takes the progress, once a sample.
        before: checkpoint to go on from.
        started: UTC, ISO 8601.
    """

    def __init__(
        self,
        system: SoakSystem,
        options: SoakOptions,
        folder: Path,
        tell: Tell,
        *,
        before: Checkpoint | None = None,
        started: str = "",
    ) -> None:
        self.system, self.options, self.folder, self._tell = system, options, folder, tell
        self.mix, self.schedule = mix_of(options.mix), Schedule(options)
        self.before, self.started = before, before.started if before else started
        self.ledger = Ledger(system.parts, msgspec.structs.replace(before.counts) if before else None)
        self.residue, self.stages = Findings(), Findings()
        self.points: list[Point] = list(before.points) if before else []
        self.phases: list[str] = list(before.phases) if before else []
        self.interrupted = self.lost = self.unwritable = ""
        self._load_s = before.elapsed_s if before else 0.0
        self.drained_s = before.drained_s if before else 0.0
        self._restore(before)
        self.phase = "warm-up"
        self.samples = Samples(self, folder / soak_record.SERIES, self._facts())
        self._recent: deque[tuple[float, int]] = deque(maxlen=40)
        self._checkpoint_due = self._sample_due = 0.0
        points, processes, _ = nemeses_of(options.nemeses)
        self.allowed = (*points, *processes)
        self.faults = ProcessFaults(processes, options, system)
        self.requests = Requests(self, before)
        self._rest = Rest(self)

    # -- the run -------------------------------------------------------------------------------

    def run(self) -> None:
        """Run every phase; a signal ends the load, and what was measured so far is kept."""
        with self._signals():
            try:
                self._load()
                self._idle()
                self._trim()
            finally:
                self.faults.release()
                self.keep()
                self.samples.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the series began."""
        return self.samples.seconds

    @property
    def ended(self) -> bool:
        """Whether the soak has to come to its end now."""
        return bool(self.interrupted or self.lost or self.unwritable)

    def applicable(self) -> tuple[str, ...]:
        """Nemeses that can strike this target: those that need nothing that it does not claim."""
        claimed = self.system.info.capabilities
        return tuple(n for n in self.allowed if not nemeses()[n].needs or nemeses()[n].needs in claimed)

    @property
    def load_s(self) -> float:
        """Seconds of load so far."""
        return self._load_s

    def _load(self) -> None:
        last, since = time.monotonic(), 0
        due = last + self.options.quiesce_period_s
        first = self.ledger.counts.started
        while not self.ended:
            now = time.monotonic()
            self._load_s += now - last
            last = now
            progress = self.schedule.progress(self.requests.next, self._load_s)
            if progress >= 1.0 and not self.requests.again:
                break
            phase = self.schedule.phase(progress)
            over = self.ledger.counts.started - since - first
            is_due = over >= self.options.quiesce_requests if self.options.quiesce_requests else now >= due
            if phase != self.phase or (is_due and over):
                self.quiesce()
                self._ran(self.phase)
                self.phase = phase
                since, due = (
                    self.ledger.counts.started - first,
                    time.monotonic() + self.options.quiesce_period_s,
                )
                last = time.monotonic()
                continue
            self.requests.submit()
            if (strike := self.faults.strike(self.phase)) is not None:
                self.ledger.strike(strike)
            self.pump(POLL_S)
        self.quiesce()
        self._ran(self.phase)

    def _ran(self, phase: str) -> None:
        if not self.ended and phase not in self.phases:
            self.phases.append(phase)

    def _idle(self) -> None:
        if self.ended:
            return
        self.phase = "idle"
        end = time.monotonic() + self.options.idle_length_s
        while not self.ended and time.monotonic() < end:
            self.pump(POLL_S, quiescent=True)
        self._ran("idle")

    def _trim(self) -> None:
        if self.ended:
            return
        self.phase = "trim"
        for _ in range(TRIM_SAMPLES):
            self.sample(quiescent=True, trim=True)
            end = time.monotonic() + TRIM_GAP_S
            while not self.ended and time.monotonic() < end:
                self.pump(POLL_S, quiescent=None)
        self._ran("trim")

    # -- events --------------------------------------------------------------------------------

    def pump(self, timeout_s: float, *, quiescent: bool | None = False) -> None:
        """Take what the system reports, and do what is due; `quiescent` None takes no sample."""
        self.poll(timeout_s)
        self.requests.give_up()
        now = time.monotonic()
        if quiescent is not None and now >= self._sample_due:
            self.sample(quiescent=quiescent)
        if now >= self._checkpoint_due:
            self._checkpoint_due = now + CHECKPOINT_S
            self.keep()

    def poll(self, timeout_s: float) -> None:
        """Take what the system reports."""
        self.faults.tick()
        for part, event in self.system.poll(timeout_s):
            self._take(part, event)

    def _take(self, part: int, event: Report | Death) -> None:
        match event:
            case News():
                self.requests.news(part, event)
            case Quiet():
                self._rest.quiet[part] = event
            case Figures(number, values):
                self.samples.answer(number, part, values)
            case Death():
                self.requests.died(event)
            case _:
                self.faults.up(part)

    # -- measures ------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Let everything end, come to rest, look at what is left, and take a sample of it."""
        self._rest.quiesce()

    def sample(self, *, quiescent: bool, trim: bool = False) -> None:
        """Measure everything now, append it to the series, and tell the progress."""
        try:
            sample = self.samples.take(quiescent=quiescent, trim=trim)
        except UnwritableError as error:
            self.unwritable = str(error)
            return
        self._sample_due = time.monotonic() + self.options.sample_period_s
        (t0, n0), (t1, n1) = self._recent[0] if self._recent else (0.0, 0), (sample.seconds, sample.started)
        self._recent.append((t1, n1))
        self._tell(
            Progress(
                phase=self.phase,
                progress=self.schedule.progress(self.requests.next, self._load_s),
                elapsed_s=sample.seconds,
                rate=(n1 - n0) / (t1 - t0) if t1 > t0 else 0.0,
                sample=sample,
                flying=len(self.ledger.flying),
                findings=sum(len(f.all()) for f in self._findings().values()),
            )
        )

    # -- state ---------------------------------------------------------------------------------

    def keep(self, *, finished: bool = False) -> None:
        """Write the checkpoint; a disk that takes it no more ends the load in order, as a signal does."""
        open_ = self.requests.open
        counts = msgspec.structs.replace(self.ledger.counts)
        counts.started -= len(open_)
        checkpoint = Checkpoint(
            options=self.options,
            started=self.started,
            next=self.requests.next,
            again=tuple(sorted({*open_, *self.requests.again})),
            elapsed_s=round(self._load_s, 3),
            drained_s=round(self.drained_s, 3),
            counts=counts,
            latency={name: h.counts() for name, h in self.ledger.total.items()},
            findings={name: tuple(f.all()) for name, f in self._findings().items()},
            points=tuple(self.points),
            phases=tuple(self.phases),
            finished=finished,
        )
        try:
            soak_record.save(self.folder, checkpoint)
        except UnwritableError as error:
            self.unwritable = str(error)

    def _findings(self) -> dict[str, Findings]:
        return {"streams": self.ledger.streams, "residue": self.residue, "stages": self.stages}

    def _restore(self, before: Checkpoint | None) -> None:
        if before is None:
            return
        self.ledger.streams = Findings(before.findings.get("streams", ()))
        self.residue = Findings(before.findings.get("residue", ()))
        self.stages = Findings(before.findings.get("stages", ()))
        self.ledger.total |= {name: Histogram(counts) for name, counts in before.latency.items()}

    def _facts(self) -> dict[str, object]:
        return {
            "command": "soak",
            "target": msgspec.to_builtins(self.system.info),
            "options": msgspec.to_builtins(self.options),
            "started": self.started,
            "parts": [f"stage{p}" for p in self.system.parts],
            "isolation": self.system.isolation,
        }

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """A first signal ends the load in order; a second one is an interrupt like everywhere."""
        before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}

        def stop(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt(signal.Signals(number).name)
            self.interrupted = signal.Signals(number).name

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
