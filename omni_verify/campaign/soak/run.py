"""``soak`` from options to result: the system, the run store, the verdict."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from omni_verify.audit.draft import draft_of
from omni_verify.audit.series import Series, read_series
from omni_verify.campaign import events, result
from omni_verify.campaign.result import RunResult, record_of, run_verdict
from omni_verify.campaign.soak import record as soak_record
from omni_verify.campaign.soak import verdict as soak_verdict
from omni_verify.campaign.soak.folder import locked, run_folder
from omni_verify.campaign.soak.ledger import Counts
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
    """What a soak leaves: its result, its figures, and where they lie.

    Attributes:
        folder: None without a run store.
        unwritten: why the run store does not hold the result; empty when it does.
    """

    result: RunResult
    cases: list[CaseResult]
    summary: Summary
    trend: TrendReport
    series: Series
    folder: Path | None
    unwritten: str = ""


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
    with run_folder(store, options.url or options.target) as (folder, kept):
        return _run(options, folder, kept, None, tell, emit)


def resume(folder: Path, *, tell: Tell, emit: events.Emit) -> Outcome:
    """Go on with a soak that was interrupted or killed, in its own folder.

    Raises:
        UsageError: there is no checkpoint or series to go on from, the soak had come to its end, or it is
            still running.
    """
    with locked(folder):
        folder = folder.resolve()
        before = soak_record.load(folder)
        if before.finished:
            raise UsageError(f"the soak in {str(folder)!r} came to its end; there is nothing to resume.")
        before.options.check()
        series = folder / soak_record.SERIES
        if series.exists() and series.stat().st_size:
            read_series(series)  # a damaged one is refused before a process is started for it
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
    if before is None:  # a soak that is killed before its first sample can be resumed too
        soak_record.save(folder, Checkpoint(options=options, started=started, next=0, counts=Counts()))
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
        verdict=run_verdict(cases, complete=not run.ended),
        started=run.started,
        duration_s=round(time.monotonic() - began, 3),
        cases=tuple(record_of(case) for case in cases),
        residue=result.union([case.residue for case in cases]),
        isolation=system.isolation,
        interrupted=run.interrupted,
    )
    unwritten = _keep(store, cases, outcome, summary)
    run.keep(finished=not run.ended and not unwritten)
    for case in cases:
        emit(events.CaseFinished(case=case))
    emit(events.RunFinished(result=outcome))
    return Outcome(
        result=outcome,
        cases=cases,
        summary=summary,
        trend=trend,
        series=series,
        folder=store.path if store else None,
        unwritten=unwritten,
    )


def _keep(store: RunStore | None, cases: list[CaseResult], outcome: RunResult, summary: Summary) -> str:
    """Write the verdict into the run store; return why it could not be: the verdict is told all the same."""
    if store is None:
        return ""
    try:
        for case in cases:
            store.handle(events.CaseFinished(case=case))
        store.write_result(outcome)
        text = msgspec.json.format(msgspec.json.encode(summary)) + b"\n"
        with draft_of(store.path / soak_record.SUMMARY) as draft:
            draft.write_bytes(text)
    except OSError as error:
        return f"cannot write the evidence into {str(store.path)!r}: {error.strerror}."
    return ""


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
