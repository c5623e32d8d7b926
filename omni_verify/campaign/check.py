"""The main job: every selected scenario against one target."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from omni_verify.campaign import events, result
from omni_verify.campaign.known_failures import Expectations, KnownFailures
from omni_verify.campaign.result import RunResult
from omni_verify.campaign.zygote import CATALOGUE, Zygote
from omni_verify.errors import OmniVerifyError, UsageError
from omni_verify.faults.nemeses import choose
from omni_verify.harness.result import CaseResult
from omni_verify.harness.scenario import Scenario, catalogue, load_catalogue, select
from omni_verify.settings import Settings

__all__ = ["NothingSelectedError", "check", "chosen", "default_jobs"]


class NothingSelectedError(OmniVerifyError):
    """The selection matches no scenario (exit code 5, as with pytest)."""

    exit_code = 5


def default_jobs() -> int:
    """Cases at a time: the cores that this process may use, at most 4."""
    return max(1, min(len(os.sched_getaffinity(0)), 4))


def chosen(patterns: Sequence[str], package: str = CATALOGUE) -> list[Scenario]:
    """Load the catalogue and return the scenarios that the globs select.

    Raises:
        UsageError: a name without wildcard is no scenario.
        NothingSelectedError: the globs match nothing.
    """
    if package:
        load_catalogue(package)
    scenarios = select(patterns)
    if not scenarios:
        raise NothingSelectedError(
            f"no scenario matches {', '.join(map(repr, patterns)) or 'the empty catalogue'}; "
            f"the catalogue has {len(catalogue())}. List them with: omni-verify list scenarios"
        )
    return scenarios


def check(
    target: str = "reference",
    select: Sequence[str] = (),
    *,
    loader: str = "auto",
    jobs: int | None = None,
    isolation: str = "auto",
    known: KnownFailures | None = None,
    nemeses: Sequence[str] = (),
    settings: Settings | None = None,
    emit: events.Emit = lambda event: None,
    zygote: Callable[..., Zygote] = Zygote,
    command: str = "check",
    package: str = CATALOGUE,
) -> RunResult:
    """Run the selected scenarios against a target and return the result.

    Ctrl-C ends every case, sweeps, and returns what is known so far with `interrupted` set.

    Args:
        target: spec, for example ``"vllm-omni==0.30.0"``.
        select: globs over scenario ids; none selects all.
        loader: ``"auto"``, ``"isolated"`` or ``"native"``.
        jobs: cases at a time; `default_jobs` when None.
        isolation: ``"auto"``, ``"mount"`` or ``"prefix"``.
        known: known failures; sets `expected` of each case and `gate` of the result.
        nemeses: names of what strikes in every case; see `omni_verify.harness.siege` for what is judged then.
        settings: bounds; from the environment when None.
        emit: receives the events of `campaign.events`.
        zygote: builds the process that holds the target.
        command: name that the result carries.
        package: catalogue package.

    Raises:
        UsageError: bad target, selection or option.
        NothingSelectedError: the selection is empty.
        TargetUnusableError: the target cannot be had or loaded, or its process died.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}.")
    choose(nemeses)
    if known is not None and nemeses:
        raise UsageError("known failures are those of runs without nemeses: leave out --known or --nemesis.")
    began, started = time.monotonic(), result.utc_now()
    scenarios = chosen(select, package)
    emit(events.TargetLoading(spec=target, loader=loader))
    with zygote(target, loader, settings=settings, isolation=isolation) as held:
        emit(
            events.RunStarted(
                command=command,
                target=held.info,
                isolation=held.isolation,
                isolation_reason=held.isolation_reason,
                cases=tuple(s.id for s in scenarios),
                jobs=jobs or default_jobs(),
            )
        )
        applied = known.apply_to(held.info) if known else None
        cases, interrupted = _run_all(held, scenarios, jobs or default_jobs(), applied, emit, nemeses)
    finished = RunResult(
        command=command,
        target=held.info,
        verdict=result.run_verdict(cases, complete=not interrupted),
        started=started,
        duration_s=round(time.monotonic() - began, 3),
        cases=tuple(
            result.record_of(c, *((applied.expected(c.id), applied.reason(c.id)) if applied else ()))
            for c in sorted(cases, key=lambda c: c.id)
        ),
        residue=result.union([c.residue for c in cases]),
        isolation=held.isolation,
        interrupted=interrupted,
        gate=applied.problems(cases, list(catalogue())) if applied else None,
    )
    emit(events.RunFinished(result=finished))
    return finished


def _run_all(
    held: Zygote,
    scenarios: list[Scenario],
    jobs: int,
    known: Expectations | None,
    emit: events.Emit,
    nemeses: Sequence[str],
) -> tuple[list[CaseResult], str]:
    """Keep `jobs` cases in flight, long ones first; return the results and what interrupted them."""
    todo = sorted(scenarios, key=lambda s: not s.slow)  # a slow case that starts last prolongs the run
    flying: set[Future[CaseResult]] = set()
    cases: list[CaseResult] = []
    try:
        while todo or flying:
            while todo and len(flying) < jobs:
                scenario = todo.pop(0)
                emit(events.CaseStarted(id=scenario.id))
                flying.add(held.submit_case(scenario, nemeses))
            done, flying = wait(flying, return_when=FIRST_COMPLETED)
            for future in done:
                case = future.result()
                cases.append(case)
                emit(events.CaseFinished(case=case, expected=known.expected(case.id) if known else None))
    except KeyboardInterrupt as stop:
        return cases, str(stop) or "SIGINT"
    return cases, ""
