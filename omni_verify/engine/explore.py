"""Search the schedules of a program for failures; replay one; say honestly what was covered.

The result is raw evidence. Whether it amounts to "held" is for `omni_verify.verdict.judge` to say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_verify.engine import token as tokens
from omni_verify.engine.bounds import Bounds
from omni_verify.engine.control.failure import Failure
from omni_verify.engine.control.run import Run, Step
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.watchdog import watch
from omni_verify.engine.determinism import Difference, verify_determinism
from omni_verify.engine.minimise import MAX_RERUNS, Minimised, minimise
from omni_verify.engine.schedule import NamedStep, Schedule, fingerprint
from omni_verify.engine.strategies import Strategy, make_strategy
from omni_verify.engine.strategies.named import NamedReplay, Naming
from omni_verify.engine.strategies.replay import Replay
from omni_verify.errors import UsageError

__all__ = [
    "Bounds",
    "Certificate",
    "ExploreResult",
    "Found",
    "ReplayResult",
    "explore",
    "program_name",
    "replay",
]

# Executions between two garbage collections: none may happen inside a schedule.
_COLLECT_EVERY = 256


@dataclass(slots=True)
class Found:
    """One distinct failure.

    Attributes:
        failure: as the minimised schedule shows it.
        token: replays it.
        trace: operations of the minimised run; empty when it was not explained.
        execution: number of the execution that found it, from 1.
        count: executions that failed this way.
        minimised: cost of the shortest schedule, None when minimising was off.
        schedule: what the token encodes.
        named: its deviations by actor and point, which survive refactoring.
    """

    failure: Failure
    token: str
    trace: list[Step]
    execution: int
    count: int
    minimised: Minimised | None
    schedule: Schedule
    named: list[NamedStep] = field(default_factory=list)


@dataclass(slots=True)
class Certificate:
    """Positive evidence of a search; a "held" without it would be empty.

    Attributes:
        points: distinct operations (kind and target) of the execution without preemptions, traced.
        threads: most tasks in one execution.
        timers_fired, steps, decisions: totals over the search.
        uncontrolled: calls, threads and replay differences outside the engine's control.
        cut: executions that reached the step bound.
        blocked: executions that were given up because a call did not return.
    """

    points: list[str] = field(default_factory=list)
    threads: int = 0
    timers_fired: int = 0
    steps: int = 0
    decisions: int = 0
    uncontrolled: list[str] = field(default_factory=list)
    cut: int = 0
    blocked: int = 0

    def add(self, run: Run) -> None:
        """Count one execution."""
        self.threads = max(self.threads, run.threads)
        self.timers_fired += run.timers_fired
        self.steps += run.steps
        self.decisions += run.decisions
        self.cut += run.cut
        self.blocked += run.abandoned and any(line.startswith("blocked") for line in run.uncontrolled)
        for line in run.uncontrolled:
            if line not in self.uncontrolled:
                self.uncontrolled.append(line)


@dataclass(slots=True)
class ExploreResult:
    """Evidence of a search.

    Attributes:
        schedules: executions of the search itself (minimising and replaying are not counted).
        failures: distinct failures, first found first.
        complete: whether every schedule that the strategy promises was run.
        completeness: what "complete" covers, in words.
        elapsed_s: real seconds of the search, without minimising and explaining.
        stopped: ``budget``, ``time``, ``failure``, ``exhausted`` or ``blocked`` (a call outside the
            engine's control did not return).
    """

    program: str
    strategy: str
    seed: int
    bounds: Bounds
    schedules: int = 0
    elapsed_s: float = 0.0
    failures: list[Found] = field(default_factory=list)
    certificate: Certificate = field(default_factory=Certificate)
    complete: bool = False
    completeness: str = ""
    stopped: str = "budget"


@dataclass(slots=True)
class ReplayResult:
    """Outcome of replaying a schedule.

    ``outcome`` is ``VIOLATED`` (the recorded failure shows again), ``FIXED`` (the program followed the
    choices and did not fail), ``DIVERGED`` (it no longer offers them; ``diverged`` is decision,
    expected, got) or ``ERROR`` (it failed in another way, or a call did not return).
    """

    outcome: str
    run: Run
    diverged: tuple[int, str, str] | None = None


def program_name(program: Callable[[], Any]) -> str:
    """Name under which a program's schedules are recorded."""
    return getattr(program, "__qualname__", type(program).__qualname__)


def explore(
    program: Callable[[], Any],
    *,
    strategy: str | Strategy = "portfolio",
    budget: int = 1000,
    seed: int = 0,
    time_s: float | None = None,
    name: str | None = None,
    bounds: Bounds | None = None,
    find_all: bool = False,
    shrink: bool = True,
    max_reruns: int = MAX_RERUNS,
    explain: bool = True,
    check_determinism: bool = False,
    progress: Callable[[ExploreResult], None] | None = None,
) -> ExploreResult:
    """Run ``program`` under up to ``budget`` schedules.

    Args:
        program: zero-argument callable that starts threads through modelled primitives (see `instrument`).
        strategy: name from `STRATEGIES` or an instance.
        budget: executions.
        seed: same seed, same executions.
        time_s: real seconds after which the search stops between two executions.
        name: identity of the program in tokens; its qualified name by default.
        bounds: granularity, carrier and limits.
        find_all: go on after the first failure and collect distinct ones.
        shrink: minimise each distinct failure, when the search has ended.
        max_reruns: executions that minimising one failure takes at most; 0 leaves it as it was found.
        explain: run each distinct failure once more, traced, which confirms it and fills ``trace`` and
            ``named``. Without it a failure is reported with its token the moment it is known.
        check_determinism: run the first execution twice and compare it decision by decision.
        progress: called every few hundred executions with the result so far.

    Raises:
        UsageError: for an unknown strategy, granularity or carrier, or a budget below 1.
    """
    if budget < 1:
        raise UsageError(f"budget is the number of executions; expected at least 1, got {budget}.")
    bounds = bounds or Bounds()
    strategy = make_strategy(strategy, seed) if isinstance(strategy, str) else strategy
    result = ExploreResult(name or program_name(program), strategy.name, seed, bounds)
    collecting = gc.isenabled()
    gc.disable()
    started = time.monotonic()
    try:
        with bounds.borrowed() as scheduler, _guarded(scheduler, bounds):
            if check_determinism:
                _compare_twice(scheduler, program, result)
            while result.schedules < budget:
                if result.certificate.blocked:
                    result.stopped = "blocked"
                    break
                if time_s is not None and time.monotonic() - started > time_s:
                    result.stopped = "time"
                    break
                if not strategy.new_execution():
                    result.stopped = "exhausted"
                    break
                run = scheduler.run(program, strategy, timeout=bounds.blocked_s)
                strategy.executed(run)
                result.schedules += 1
                result.certificate.add(run)
                if run.failure is not None:
                    _note(result, run)
                    if not find_all:
                        result.stopped = "failure"
                        break
                if result.schedules % _COLLECT_EVERY == 0:
                    gc.collect(1)
                    if progress is not None:
                        progress(result)
            result.elapsed_s = time.monotonic() - started
            if collecting:
                gc.enable()
            for found in result.failures:
                tape = found.schedule.tape
                if shrink and max_reruns > 0:
                    _shrink(scheduler, program, found, max_reruns)
                if explain:
                    _explain(scheduler, program, result, found, tape)
            if (explain or not result.failures) and not result.certificate.blocked:
                _trace_points(scheduler, program, result)
    finally:
        if collecting:
            gc.enable()
    result.completeness = strategy.completeness()
    if result.completeness and bounds.early_timers and strategy.deviates:
        result.completeness += f", with at most {bounds.early_timers} early timers"
    if result.completeness and bounds.spurious_wakeups and strategy.deviates:
        result.completeness += f", with at most {bounds.spurious_wakeups} spurious wake-ups"
    result.complete = (
        bool(result.completeness) and not result.certificate.cut and not result.certificate.uncontrolled
    )
    return result


def replay(
    schedule: Schedule | str | Sequence[NamedStep],
    program: Callable[[], Any],
    *,
    name: str | None = None,
    carrier: str = "greenlet",
    bounds: Bounds | None = None,
    failure: int = 0,
) -> ReplayResult:
    """Run ``program`` once under a recorded schedule, with a trace.

    Args:
        schedule: a token, what it encodes, or named steps.
        program: as for `explore`.
        name: the program's name when it was recorded.
        carrier: ``greenlet`` or ``thread``.
        bounds: for named steps, which do not carry the bounds they were recorded under.
        failure: for named steps, the fingerprint of the failure that counts as ``VIOLATED``; 0 is any.

    Raises:
        UsageError: for a damaged token, or one that was recorded on another program.
    """
    if isinstance(schedule, str):
        schedule = tokens.decode(schedule)
    follow: Replay | NamedReplay
    if isinstance(schedule, Schedule):
        tokens.check_program(schedule, name or program_name(program))
        bounds = Bounds(
            schedule.granularity,
            carrier,
            schedule.max_steps,
            schedule.early_timers,
            spurious_wakeups=schedule.spurious_wakeups,
        )
        follow = Replay(schedule.tape, schedule.arity)
        failure = schedule.failure
    else:
        bounds = dataclasses.replace(bounds or Bounds(), carrier=carrier)
        follow = NamedReplay(schedule)
    follow.new_execution()
    with bounds.borrowed() as scheduler, _guarded(scheduler, bounds):
        run = scheduler.run(program, follow, trace=True, timeout=bounds.blocked_s)
    if run.failure is not None:
        same = not failure or fingerprint(run.failure.identity) == failure
        return ReplayResult("VIOLATED" if same else "ERROR", run, follow.diverged)
    if run.abandoned:  # a call outside the engine's control did not return; `run.uncontrolled` names it
        return ReplayResult("ERROR", run, follow.diverged)
    if follow.diverged is None and follow.unused():
        follow.diverged = (run.decisions, f"{follow.unused()} more switches", "the end of the program")
    return ReplayResult("DIVERGED" if follow.diverged else "FIXED", run, follow.diverged)


def _guarded(scheduler: Scheduler, bounds: Bounds) -> contextlib.AbstractContextManager[None]:
    """On OS threads the scheduler itself notices that a run is stuck."""
    return watch(scheduler, bounds.blocked_s) if bounds.carrier == "greenlet" else contextlib.nullcontext()


def _trace_points(scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult) -> None:
    """Trace one execution, without a preemption, for the certificate."""
    follow = Replay([])
    follow.new_execution()
    run = scheduler.run(program, follow, trace=True, timeout=result.bounds.blocked_s)
    result.certificate.add(run)
    result.certificate.points = sorted({f"{s.kind} {s.target}".rstrip() for s in run.trace or []})


def _compare_twice(scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult) -> None:
    """Look for nondeterminism outside the engine's control, in the default order and in a random one."""
    for probe in (Replay([]), make_strategy("random", result.seed)):
        difference: Difference | None = verify_determinism(scheduler, program, probe)
        if difference is not None:
            result.certificate.uncontrolled.append(f"nondeterminism at {difference}")


def _note(result: ExploreResult, run: Run) -> None:
    """Keep a failure that is new, as it was found."""
    failure = run.failure
    assert failure is not None
    for known in result.failures:
        if known.failure.identity == failure.identity:
            known.count += 1
            return
    bounds = result.bounds
    schedule = Schedule(
        fingerprint(result.program),
        bounds.granularity,
        bounds.early_timers,
        bounds.max_steps,
        tuple(run.tape),
        (),
        fingerprint(failure.identity),
        bounds.spurious_wakeups,
    )
    result.failures.append(Found(failure, tokens.encode(schedule), [], result.schedules, 1, None, schedule))


def _shrink(scheduler: Scheduler, program: Callable[[], Any], found: Found, reruns: int) -> None:
    small = minimise(scheduler, program, list(found.schedule.tape), found.failure.identity, max_reruns=reruns)
    if small is not None:
        found.minimised = small
        _reschedule(found, small.tape, ())


def _explain(
    scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult, found: Found, tape: Sequence[int]
) -> None:
    """Run a failure once more, traced, which also confirms it; ``tape`` is as it was found."""
    identity = found.failure.identity
    follow, naming, again = _traced(scheduler, program, result, found.schedule.tape)
    if found.minimised is not None and (again.failure is None or again.failure.identity != identity):
        # What shrinking saw does not come again: the schedule that was found is the better evidence.
        found.minimised = None
        _reschedule(found, tape, ())
        follow, naming, again = _traced(scheduler, program, result, tape)
    if again.failure is None or again.failure.identity != identity:
        got = again.failure.identity if again.failure else "no failure"
        result.certificate.uncontrolled.append(
            f"a failing run did not replay: expected {identity}, got {got}"
        )
    found.failure = again.failure or found.failure
    found.named, found.trace = naming.steps, again.trace or []
    _reschedule(found, found.schedule.tape, follow.arity_seen)


def _traced(
    scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult, tape: Sequence[int]
) -> tuple[Replay, Naming, Run]:
    follow = Replay(tape)
    naming = Naming(follow)
    naming.new_execution()
    return follow, naming, scheduler.run(program, naming, trace=True, timeout=result.bounds.blocked_s)


def _reschedule(found: Found, tape: Sequence[int], arity: Sequence[int]) -> None:
    found.schedule = dataclasses.replace(found.schedule, tape=tuple(tape), arity=tuple(arity))
    found.token = tokens.encode(found.schedule)
