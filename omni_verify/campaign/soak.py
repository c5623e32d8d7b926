"""Soak a system: load it for a long time, measure it, judge what it left and whether it grew."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from omni_verify.audit.sampler import memory_of, process_figures, shm_figures
from omni_verify.audit.sampler_gpu import gpu_figures
from omni_verify.audit.sampler_latency import Histogram
from omni_verify.audit.series import Sample, SeriesWriter, read_series
from omni_verify.campaign import soak_record
from omni_verify.campaign.soak_faults import ProcessFaults
from omni_verify.campaign.soak_ledger import Entry, Findings, Ledger
from omni_verify.campaign.soak_options import Schedule, SoakOptions, nemeses_of
from omni_verify.campaign.soak_record import Checkpoint, Point
from omni_verify.campaign.soak_rest import Rest
from omni_verify.campaign.soak_system import Death, SoakSystem
from omni_verify.faults.nemeses import Harm, nemeses
from omni_verify.harness.soak_messages import Figures, News, Over, Quiet, Report
from omni_verify.harness.soak_plan import Plan, mix_of, plan_of
from omni_verify.verdict import Finding

__all__ = ["Progress", "Soak", "Tell"]

CHECKPOINT_S = 5.0
"""Seconds between two checkpoints."""
POLL_S = 0.05
ANSWER_S = 20.0
"""Seconds after which a sample goes without the figures of a part that does not answer."""
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


class _Leaving(msgspec.Struct, kw_only=True):
    """A request that is over, until every part has forgotten it; `again`: its id is then used again."""

    label: str
    again: bool
    confirmed: set[int] = set()


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
        self.interrupted = self.lost = ""
        self._next, self._again = (before.next, deque(before.again)) if before else (0, deque[int]())
        self._load_s = before.elapsed_s if before else 0.0
        self._restore(before)
        self.phase = "warm-up"
        offset = self._offset()
        self._writer = SeriesWriter(folder / soak_record.SERIES, self._facts())
        self._zero = time.monotonic() - offset
        self._second: deque[int] = deque()
        self._leaving: dict[int, _Leaving] = {}
        self._recent: deque[tuple[float, int]] = deque(maxlen=40)
        self._checkpoint_due = self._sample_due = 0.0
        self._numbers = 0
        self._figures: dict[int, dict[int, dict[str, float]]] = {}
        points, processes, _ = nemeses_of(options.nemeses)
        self.allowed = (*points, *processes)
        self.faults = ProcessFaults(processes, options, system)
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
                self.keep(finished=not self.interrupted and not self.lost)
                self._writer.close()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the series began."""
        return time.monotonic() - self._zero

    @property
    def ended(self) -> bool:
        """Whether the soak has to come to its end now."""
        return bool(self.interrupted or self.lost)

    def applicable(self) -> tuple[str, ...]:
        """Nemeses that can strike this target: those that need nothing that it does not claim."""
        claimed = self.system.info.capabilities
        return tuple(n for n in self.allowed if not nemeses()[n].needs or nemeses()[n].needs in claimed)

    @property
    def load_s(self) -> float:
        """Seconds of load so far."""
        return self._load_s

    def _load(self) -> None:
        last, since, due = time.monotonic(), 0, 0.0
        first = self.ledger.counts.started
        while not self.ended:
            now = time.monotonic()
            self._load_s += now - last
            last = now
            progress = self.schedule.progress(self._next, self._load_s)
            if progress >= 1.0 and not self._again:
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
            self._submit()
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

    # -- requests ------------------------------------------------------------------------------

    def _submit(self) -> None:
        """Start what the concurrency and the rate let through, if every stage is up."""
        if not self.faults.is_up():
            return
        room = self.options.concurrency - len(self.ledger.flying)
        plans: list[Plan] = []
        while self._second and len(plans) < room:
            plans.append(self._plan(self._second.popleft(), generation=2))
        if self.options.rate:
            owed = int(self._load_s * self.options.rate) - self._next
            room = min(room, max(0, owed) + len(plans))
        while len(plans) < room:
            if self._again:
                index = self._again.popleft()
            elif self.options.requests and self._next >= self.options.requests:
                break
            else:
                index, self._next = self._next, self._next + 1
            plans.append(self._plan(index))
        if plans:
            for plan in plans:
                self.ledger.submit(plan)
            self.system.submit(plans)

    def _plan(self, index: int, generation: int = 1) -> Plan:
        plan = plan_of(self.options.seed, index, self.mix, leavers=self.phase != "control")
        return msgspec.structs.replace(plan, generation=generation, submitted=time.monotonic())

    def pump(self, timeout_s: float, *, quiescent: bool | None = False) -> None:
        """Take what the system reports, and do what is due; `quiescent` None takes no sample."""
        self._poll(timeout_s)
        hanging = self.ledger.hanging(self.options.request_s)
        if hanging:
            self._give_up(hanging)
        now = time.monotonic()
        if quiescent is not None and now >= self._sample_due:
            self.sample(quiescent=quiescent)
        if now >= self._checkpoint_due:
            self._checkpoint_due = now + CHECKPOINT_S
            self.keep()

    def _poll(self, timeout_s: float) -> None:
        self.faults.tick()
        for part, event in self.system.poll(timeout_s):
            self._take(part, event)

    def _take(self, part: int, event: Report | Death) -> None:
        match event:
            case News():
                self._news(part, event)
            case Quiet():
                self._rest.quiet[part] = event
            case Figures(number, values):
                if number in self._figures:
                    self._figures[number][part] = values
            case Death():
                self._died(event)
            case _:
                self.faults.up(part)

    def _news(self, part: int, news: News) -> None:
        ledger = self.ledger
        for strike in news.strikes:
            ledger.strike(strike)
        for text in news.raised:
            ledger.raised(text)
        if news.left:
            self.system.abort(news.left, [p for p in self.system.parts if p != part])
        for over in news.over:
            entry = ledger.over(part, over)
            if over.status == "failed":
                self._end([over.index])
            if entry is not None:
                self._close(entry)
        for index in news.forgotten:
            self._forgotten(index, part)

    def _close(self, entry: Entry) -> None:
        """Take leave of a request that is over everywhere; what lies unread of it is released.

        Not where its client left and nothing failed: then the aborts themselves must have cleaned up (I31).
        """
        index = entry.plan.index
        self._leaving[index] = _Leaving(again=self.ledger.close(entry), label=entry.plan.label)
        self.system.forget([index], release=bool(entry.told) or not entry.plan.aborts)
        for part in self.system.parts:
            if self.faults.is_down(part):
                self._lose(index, part)

    def _lose(self, index: int, part: int) -> None:
        """Note that a part which has ended confirms no release: what it owned is its parent's to remove."""
        self.ledger.excused.add(self._leaving[index].label)
        self._forgotten(index, part)

    def _forgotten(self, index: int, part: int) -> None:
        leaving = self._leaving.get(index)
        if leaving is None:
            return
        leaving.confirmed.add(part)
        if len(leaving.confirmed) == len(self.system.parts):
            del self._leaving[index]
            if leaving.again:
                self._second.append(index)

    def _end(self, indices: list[int]) -> None:
        """Tell every part to end requests that failed somewhere, as an orchestrator does."""
        now = time.monotonic()
        told = [i for i in indices if i in self.ledger.flying and not self.ledger.flying[i].told]
        for index in told:
            self.ledger.flying[index].told = now
        if told:
            self.system.abort(told, self.system.parts, at_once=True)

    def _give_up(self, entries: list[Entry]) -> None:
        fresh = [e for e in entries if not e.told]
        for entry in fresh:
            self.ledger.hangs(entry)
        self._end([e.plan.index for e in fresh])
        for entry in entries:
            if entry not in fresh:  # it was told, and a part still does not answer
                self.stages.add(
                    Finding(
                        invariant="I37b",
                        message="a stage does not end a request that was aborted",
                        expected="every stage lets go of it",
                        found=f"answers from {sorted(entry.over)} only",
                        key="abort-ignored",
                    ),
                    entry.plan.label,
                )
                self._close(entry)

    def _died(self, death: Death) -> None:
        """A part has ended: what it held is lost; what it was is a finding, unless a nemesis killed it."""
        self.ledger.counts.deaths += 1
        if death.stage < 0:
            self.lost = "the parent of the stages is gone"
        wanted = self.faults.died(death)
        if not wanted:
            self.stages.add(
                Finding(
                    invariant="I37b",
                    message=f"the process of stage{death.stage} was {death.how}"
                    if death.code < 0
                    else f"the process of stage{death.stage} {death.how}",
                    expected="it lives as long as the soak",
                    found=death.how,
                    key=f"crash/stage{death.stage}",
                    evidence={
                        "code": death.code,
                        "log": death.log[-3000:],
                        "requests": self.ledger.counts.started,
                        "seconds": round(self.elapsed_s, 1),
                    },
                ),
                f"pid {death.pid}: {death.how}",
            )
        for entry in self.ledger.flying.values():
            self.ledger.excuse(entry, Harm.SILENT, leaves=True)
            entry.over.setdefault(death.stage, _lost(entry, death))
        indices = list(self.ledger.flying)
        self._end(indices)
        for entry in list(self.ledger.flying.values()):
            if len(entry.over) == len(self.system.parts):
                self._close(entry)
        for index in list(self._leaving):
            self._lose(index, death.stage)
        if not self.ended:
            self.faults.restart(death.stage)
            self.ledger.counts.restarts += 1

    # -- measures ------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Let everything end, come to rest, look at what is left, and take a sample of it."""
        self._rest.quiesce()

    def drain(self, bound_s: float) -> bool:
        """Wait until no request is in flight, second generations included; False at the bound."""
        end = time.monotonic() + bound_s
        while self.ledger.flying or self._leaving or self._second or not self.faults.is_up():
            if time.monotonic() > end or self.lost:
                return False
            if self._second:
                self._submit_second()
            self.pump(POLL_S)
        return True

    def _submit_second(self) -> None:
        if not self.faults.is_up():
            return
        plans = [self._plan(self._second.popleft(), generation=2) for _ in range(len(self._second))]
        for plan in plans:
            self.ledger.submit(plan)
        self.system.submit(plans)

    def sample(self, *, quiescent: bool, trim: bool = False) -> None:
        """Measure everything now and append it to the series."""
        self._numbers += 1
        number = self._numbers
        answers = self._figures[number] = {}
        self.system.inspect(number, collect=quiescent, trim=trim)
        end = time.monotonic() + ANSWER_S
        while len(answers) < len(self.system.parts) and time.monotonic() < end:
            if not self.faults.is_up() or not self.system.inspects:
                break
            self._poll(POLL_S)
        del self._figures[number]
        values = {f"stage{part}.{name}": v for part, found in answers.items() for name, v in found.items()}
        pids = self.system.pids()
        values |= process_figures(pids) | gpu_figures(pids)
        values |= shm_figures(self.system.shm())
        values |= self.ledger.recent_figures()
        values |= {f"driver.{k}": v for k, v in memory_of_self().items()}
        values["driver.in_flight"] = float(len(self.ledger.flying))
        counts = self.ledger.counts
        sample = Sample(
            seconds=round(self.elapsed_s, 3),
            phase=self.phase,
            started=counts.started,
            completed=counts.completed,
            aborted=counts.aborted,
            failed=counts.failed,
            quiescent=quiescent,
            figures=values,
        )
        self._writer.append(sample)
        self._sample_due = time.monotonic() + self.options.sample_period_s
        self._report(sample)

    def _report(self, sample: Sample) -> None:
        self._recent.append((sample.seconds, sample.started))
        (t0, n0), (t1, n1) = self._recent[0], self._recent[-1]
        self._tell(
            Progress(
                phase=self.phase,
                progress=self.schedule.progress(self._next, self._load_s),
                elapsed_s=sample.seconds,
                rate=(n1 - n0) / (t1 - t0) if t1 > t0 else 0.0,
                sample=sample,
                flying=len(self.ledger.flying),
                findings=sum(len(f.all()) for f in (self.ledger.streams, self.residue, self.stages)),
            )
        )

    # -- state ---------------------------------------------------------------------------------

    def keep(self, *, finished: bool = False) -> None:
        """Write the checkpoint."""
        reused = {index for index, leaving in self._leaving.items() if leaving.again}
        again = sorted({*self.ledger.flying, *self._again, *self._second, *reused})
        counts = msgspec.structs.replace(self.ledger.counts)
        counts.started -= len({*self.ledger.flying, *self._second, *reused})
        soak_record.save(
            self.folder,
            Checkpoint(
                options=self.options,
                started=self.started,
                next=self._next,
                again=tuple(again),
                elapsed_s=round(self._load_s, 3),
                counts=counts,
                latency={name: h.counts() for name, h in self.ledger.total.items()},
                findings={name: tuple(f.all()) for name, f in self._findings().items()},
                points=tuple(self.points),
                phases=tuple(self.phases),
                finished=finished,
            ),
        )

    def _findings(self) -> dict[str, Findings]:
        return {"streams": self.ledger.streams, "residue": self.residue, "stages": self.stages}

    def _restore(self, before: Checkpoint | None) -> None:
        if before is None:
            return
        self.ledger.streams = Findings(before.findings.get("streams", ()))
        self.residue = Findings(before.findings.get("residue", ()))
        self.stages = Findings(before.findings.get("stages", ()))
        self.ledger.total |= {name: Histogram(counts) for name, counts in before.latency.items()}

    def _offset(self) -> float:
        """Seconds of the series that a resumed soak goes on with."""
        path = self.folder / soak_record.SERIES
        if not path.exists():
            return 0.0
        samples = read_series(path).samples
        return samples[-1].seconds if samples else 0.0

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


def _lost(entry: Entry, death: Death) -> Over:
    """What a part that has ended says of a request: it failed."""
    return Over(
        index=entry.plan.index,
        generation=entry.plan.generation,
        status="failed",
        error=f"stage{death.stage} was {death.how}",
    )


def memory_of_self() -> dict[str, float]:
    """Resident bytes of the soak's own process: it must not be what grows."""
    return {name: value for name, value in memory_of(os.getpid()).items() if name == "rss"}
