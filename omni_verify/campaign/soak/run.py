"""``soak`` from options to result: the system, the run store, the verdict."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from omni_verify.audit.series import Series
from omni_verify.campaign import events, result
from omni_verify.campaign.result import RunResult, record_of, run_verdict
from omni_verify.campaign.soak import record as soak_record
from omni_verify.campaign.soak import verdict as soak_verdict
from omni_verify.campaign.soak.load import Soak, Tell
from omni_verify.campaign.soak.options import SoakOptions, nemeses_of
from omni_verify.campaign.soak.record import Checkpoint, Summary
from omni_verify.campaign.soak.server import ServerSystem
from omni_verify.campaign.soak.stage_system import StageSystem
from omni_verify.campaign.soak.system import SoakSystem
from omni_verify.campaign.store import RunStore
from omni_verify.checks.trend.report import TrendReport
from omni_verify.errors import UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.harness.soak.messages import StageOptions

__all__ = ["Outcome", "resume", "soak"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a soak leaves: its result, its figures, and where they lie (None without a store)."""

    result: RunResult
    cases: list[CaseResult]
    summary: Summary
    trend: TrendReport
    series: Series
    folder: Path | None


def soak(options: SoakOptions, *, store: Path | None, tell: Tell, emit: events.Emit) -> Outcome:
    """Run a soak.

    Args:
        options: what to do.
        store: root of the run store; None keeps nothing.
        tell: takes the progress, once a sample.
        emit: takes the events of the run.

    Raises:
        UsageError: an option is wrong.
        TargetUnusableError: the target or the server cannot be used.
    """
    options.check()
    name = options.url or options.target
    kept = RunStore(store, "soak", name) if store is not None else None
    with _folder(kept.path if kept else None) as folder:
        return _run(options, folder, kept, None, tell, emit)


def resume(folder: Path, *, tell: Tell, emit: events.Emit) -> Outcome:
    """Go on with a soak that was interrupted or killed, in its own folder.

    Raises:
        UsageError: there is no checkpoint, or the soak had come to its end.
    """
    folder = folder.resolve()
    before = soak_record.load(folder)
    if before.finished:
        raise UsageError(f"the soak in {str(folder)!r} came to its end; there is nothing to resume.")
    return _run(before.options, folder, RunStore.reopen(folder), before, tell, emit)


def _run(
    options: SoakOptions,
    folder: Path,
    store: RunStore | None,
    before: Checkpoint | None,
    tell: Tell,
    emit: events.Emit,
) -> Outcome:
    began, started = time.monotonic(), result.utc_now()
    emit(events.TargetLoading(spec=options.url or options.target, loader=options.loader))
    system = _system(options, folder)
    try:
        system.start()
        emit(
            events.RunStarted(
                command="soak",
                target=system.info,
                isolation=system.isolation,
                cases=soak_verdict.CASES,
                jobs=1,
            )
        )
        run = Soak(system, options, folder, tell, before=before, started=started)
        run.run()
    except BaseException:
        system.close()
        raise
    left = system.close()
    series, trend = soak_verdict.trend_of(run)
    cases = soak_verdict.conclude(run, trend, left)
    summary = soak_verdict.summary_of(run, trend)
    outcome = RunResult(
        command="soak",
        target=system.info,
        verdict=run_verdict(cases, complete=not run.interrupted and not run.lost),
        started=run.started,
        duration_s=round(time.monotonic() - began, 3),
        cases=tuple(record_of(case) for case in cases),
        residue=result.union([case.residue for case in cases]),
        isolation=system.isolation,
        interrupted=run.interrupted,
    )
    for case in cases:
        if store is not None:
            store.handle(events.CaseFinished(case=case))
        emit(events.CaseFinished(case=case))
    if store is not None:
        store.write_result(outcome)
        (folder / soak_record.SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    emit(events.RunFinished(result=outcome))
    return Outcome(
        result=outcome,
        cases=cases,
        summary=summary,
        trend=trend,
        series=series,
        folder=store.path if store else None,
    )


def _system(options: SoakOptions, folder: Path) -> SoakSystem:
    if options.url:
        return ServerSystem(options)
    points, _, leak = nemeses_of(options.nemeses)
    return StageSystem(
        StageOptions(
            spec=options.target,
            loader=options.loader,
            stage=0,
            stages=options.stages,
            prefix="",
            isolation=options.isolation,
            nemeses=points,
            rate=options.nemesis_rate,
            leak=leak,
            seed=options.seed,
        ),
        folder,
    )


@contextlib.contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    """The run's folder, or one that is removed afterwards."""
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="omni-verify-soak-") as folder:
        yield Path(folder)
