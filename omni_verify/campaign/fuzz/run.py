"""Fuzz a target: random legal programs, crossed with schedules and nemeses, judged by checks and model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import msgspec

from omni_verify.campaign import result, wire
from omni_verify.campaign.coverage import Coverage, Gaps, count
from omni_verify.campaign.explore.exploration import FailureRecord
from omni_verify.campaign.fuzz import job as fuzz_job
from omni_verify.campaign.fuzz.fuzzing import SEED_STEP, Batch, BatchResult, FuzzFailure, FuzzReport
from omni_verify.campaign.fuzz.roots import roots
from omni_verify.campaign.workers import Workers, local, on_ray
from omni_verify.engine.points import OPERATIONS
from omni_verify.errors import UsageError
from omni_verify.faults.nemeses import choose
from omni_verify.harness.fuzz.rules import VERBS
from omni_verify.targets.protocol import Capabilities
from omni_verify.verdict import Evidence, Finding, judge

__all__ = ["DEFAULT_TIME_S", "Progress", "fuzz"]

DEFAULT_TIME_S = 60.0
"""Seconds of a run that is bounded by neither time nor budget."""
BATCH_PROGRAMS, SCHEDULES = 25, 4
"""Programs of a batch, and runs of each program."""
BATCH_S, GRACE_S = 60.0, 120.0
"""Seconds after which a batch stops by itself, and is ended from outside (shrinking included)."""
_MOST_ERRORS = 3
"""Batches of one session that may give no result before it ends."""

Progress = Callable[[FuzzReport], None]
"""Called with the report so far after each batch."""


def fuzz(
    target: str = "reference",
    *,
    time_s: float | None = None,
    budget: int | None = None,
    seed: int = 0,
    workers: int = 1,
    nemeses: Sequence[str] = ("all",),
    resume: Path | None = None,
    ray: str = "",
    loader: str = "auto",
    isolation: str = "auto",
    progress: Progress = lambda report: None,
) -> FuzzReport:
    """Play random programs until the time or the budget is used up.

    Programs are a function of the seed; how many of them run depends on the machine when only the time
    bounds the run, and which example of a failure is shrunk on which batch ends first.

    Args:
        time_s: seconds for everything; `DEFAULT_TIME_S` when there is no budget either.
        budget: runs (a program under one schedule).
        workers: batches at a time.
        nemeses: names, or ``all``, or ``none``.
        resume: file that keeps the state; if it exists, the run goes on from it.
        ray: ``"local"`` or a cluster's address; empty for this machine's processes.

    Raises:
        UsageError: an option is wrong, or the file belongs to another run.
        TargetUnusableError: the target cannot be used.
    """
    choose(nemeses)
    for name, value in (("--budget", budget), ("--workers", workers)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}.")
    if time_s is None and budget is None:
        time_s = DEFAULT_TIME_S
    began, started = time.monotonic(), result.utc_now()
    held = on_ray(ray, target, loader, isolation, workers) if ray else local(target, loader, isolation)
    with held as crew:
        allowed = [s.name for s in choose(nemeses, _claimed(crew))]
        before = _load(resume, crew, seed, allowed)
        run = _Run(crew, allowed, seed, before, budget, None if time_s is None else began + time_s)

        def report(*, interrupted: str = "") -> FuzzReport:
            return run.report(target, started, time.monotonic() - began, before, interrupted)

        def keep() -> None:
            now = report()
            progress(now)
            if resume is not None:
                _write(resume, now)

        interrupted = run.go(workers, keep)
        final = report(interrupted=interrupted)
    if resume is not None:
        _write(resume, final)
    return final


class _Run:
    """Keeps batches in flight and adds up what they found."""

    def __init__(
        self,
        crew: Workers,
        nemeses: list[str],
        seed: int,
        before: FuzzReport | None,
        budget: int | None,
        deadline: float | None,
    ) -> None:
        self.crew, self.nemeses, self.seed = crew, nemeses, seed
        self.budget, self.deadline = budget, deadline
        self.failures: dict[str, FuzzFailure] = {f.key: f for f in before.failures} if before else {}
        self.repeats: dict[str, int] = dict(before.repeats) if before else {}
        self.coverage = before.coverage if before else Coverage()
        self.done: list[int] = list(before.batches) if before else []
        self.programs, self.runs = (before.programs, before.runs) if before else (0, 0)
        self.operations = before.operations if before else 0
        self.shrink_runs = before.shrink_runs if before else 0
        self.uncontrolled: list[str] = list(before.uncontrolled) if before else []
        self.errors: list[str] = list(before.errors) if before else []
        self._before_runs, self._before_errors = self.runs, len(self.errors)
        self._numbers = self._unused()

    def _unused(self) -> Iterator[int]:
        number = 0
        while True:
            if number not in self.done:
                yield number
            number += 1

    def go(self, workers: int, keep: Callable[[], None]) -> str:
        """Run batches; return the name of the signal that interrupted, else an empty string."""
        flying: dict[Future[wire.Outcome], Batch] = {}
        try:
            while True:
                while len(flying) < workers and self._goes_on(len(flying)):
                    batch = self._next()
                    flying[self._submit(batch)] = batch
                if not flying:
                    return ""
                ready, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in ready:
                    self._take(flying.pop(future), future.result())
                keep()
        except KeyboardInterrupt as stop:
            return str(stop) or "SIGINT"

    def _goes_on(self, flying: int) -> bool:
        if len(self.errors) - self._before_errors > _MOST_ERRORS:
            return False
        if self.deadline is not None and time.monotonic() >= self.deadline - 1:
            return False
        ahead = flying * BATCH_PROGRAMS * SCHEDULES
        return self.budget is None or self.runs - self._before_runs + ahead < self.budget

    def _next(self) -> Batch:
        number = next(self._numbers)
        programs, left = BATCH_PROGRAMS, BATCH_S
        if self.budget is not None:
            missing = self.budget - (self.runs - self._before_runs)
            programs = max(1, min(programs, -(-missing // SCHEDULES)))
        if self.deadline is not None:
            left = max(1.0, min(left, self.deadline - time.monotonic()))
        return Batch(
            number=number,
            seed=self.seed * SEED_STEP + number * BATCH_PROGRAMS,
            programs=programs,
            schedules=SCHEDULES,
            nemeses=tuple(self.nemeses),
            known=tuple(self.failures.values()),
            time_s=left,
        )

    def _submit(self, batch: Batch) -> Future[wire.Outcome]:
        return self.crew.submit(
            fuzz_job.ENTRY, {"batch": msgspec.to_builtins(batch)}, limit_s=batch.time_s + GRACE_S
        )

    def _take(self, batch: Batch, outcome: wire.Outcome) -> None:
        read = _read(batch, outcome)
        if read.error:
            self.errors.append(f"batch {batch.number} (program seeds from {batch.seed}): {read.error}")
            return
        self.done.append(batch.number)
        self.programs += read.programs
        self.runs += read.runs
        self.operations += read.operations
        self.shrink_runs += read.shrink_runs
        self.coverage.add(read.coverage)
        count(self.repeats, read.repeats.items())
        self.uncontrolled += [line for line in read.uncontrolled if line not in self.uncontrolled]
        for failure in read.failures:
            strikes, traits = set(failure.strikes), set(failure.traits)
            same = next(
                (f for f in self.failures.values() if f.explains(failure.identity, strikes, traits)), None
            )
            if same is None:
                self.failures[failure.key] = failure
            else:  # another batch has found it meanwhile
                count(self.repeats, [(same.key, 1)])

    def report(
        self, target: str, started: str, elapsed: float, before: FuzzReport | None, interrupted: str
    ) -> FuzzReport:
        """Everything so far, judged."""
        failures = tuple(
            msgspec.structs.replace(f, record=_with_command(f.record, target, self.repeats.get(f.key, 0)))
            for f in sorted(self.failures.values(), key=lambda f: f.key)
        )
        findings = [
            Finding(
                invariant=f.record.invariant or f.record.kind,
                message=f.record.message,
                key=f.key,
                evidence={"token": f.record.token},
            )
            for f in failures
        ]
        verdict, reason = judge(
            findings,
            Evidence(
                actors=("fuzz",),
                finished=("fuzz",),
                checked=self.runs,
                cut="; ".join([*self.errors, *self.uncontrolled[:3], interrupted]).strip("; "),
            ),
        )
        return FuzzReport(
            target=self.crew.info,
            verdict=verdict,
            reason=reason,
            started=before.started if before else started,
            duration_s=round(elapsed + (before.duration_s if before else 0.0), 3),
            seed=self.seed,
            nemeses=tuple(self.nemeses),
            batches=tuple(sorted(self.done)),
            programs=self.programs,
            runs=self.runs,
            operations=self.operations,
            shrink_runs=self.shrink_runs,
            sessions=(before.sessions if before else 0) + 1,
            failures=failures,
            roots=roots(failures),
            repeats=dict(sorted(self.repeats.items())),
            coverage=self.coverage,
            gaps=self._gaps(),
            uncontrolled=tuple(self.uncontrolled),
            errors=tuple(self.errors),
            isolation=self.crew.isolation,
            interrupted=interrupted,
        )

    def _gaps(self) -> Gaps:
        return self.coverage.gaps(
            possible=[o for o in OPERATIONS if o not in ("step", "tick")], nemeses=self.nemeses, verbs=VERBS
        )


def _read(batch: Batch, outcome: wire.Outcome) -> BatchResult:
    """Turn the outcome of a job into its result; a crash and a hang are errors of the batch."""
    if outcome.payload is not None and not outcome.timed_out:
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(outcome.payload, type=BatchResult)
    error = wire.failure_of(outcome, "it")
    return BatchResult(number=batch.number, error=error)


def _with_command(record: FailureRecord, target: str, repeats: int) -> FailureRecord:
    where = "" if target == "reference" else f" --target '{target}'"
    return msgspec.structs.replace(
        record, count=1 + repeats, replay=f"omni-verify replay {record.token}{where}"
    )


def _claimed(crew: Workers) -> Capabilities:
    return Capabilities(**{f: f in crew.info.capabilities for f in Capabilities.__struct_fields__})


def _load(path: Path | None, crew: Workers, seed: int, nemeses: list[str]) -> FuzzReport | None:
    if path is None or not path.exists():
        return None
    try:
        before = msgspec.json.decode(path.read_bytes(), type=FuzzReport)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"cannot resume from {str(path)!r}: {error}") from None
    for what, kept, now in (
        ("target", before.target.name, crew.info.name),
        ("version", before.target.version, crew.info.version),
        ("seed", before.seed, seed),
        ("nemeses", ", ".join(before.nemeses), ", ".join(nemeses)),
    ):
        if kept != now:
            raise UsageError(
                f"{str(path)!r} is the state of another run: its {what} is {kept!r}, this one's is {now!r}. "
                "Give the same options, or another file."
            )
    return before


def _write(path: Path, report: FuzzReport) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot keep the state in {str(path)!r}: {error}") from None
