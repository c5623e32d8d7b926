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
from omni_verify.engine.control.failure import Failure
from omni_verify.engine.control.run import Run, Step
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.watchdog import watch
from omni_verify.engine.determinism import Difference, verify_determinism
from omni_verify.engine.minimise import Minimised, minimise
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


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that bound a search, and what runs it.

    Attributes:
        granularity: which operations are decision points: ``connector``, ``sync`` or ``access``.
        carrier: ``greenlet`` or ``thread``; no influence on results.
        max_steps: operations of one execution before the choice becomes fair; twice as many are a livelock.
        early_timers: timers that may fire in one execution while somebody can still run.
        spurious_wakeups: waiters of a condition that may wake in one execution although nobody notified
            them. CPython's own conditions never do that, so the default is 0; the documentation of
            `threading.Condition` allows it, and 1 finds a ``wait`` without a loop around it.
        leaked_daemons_fail: whether a daemon thread alive at the end of the program is a failure.
        blocked_s: seconds of real time without progress after which a run counts as blocked.
    """

    granularity: str = "sync"
    carrier: str = "greenlet"
    max_steps: int = 20_000
    early_timers: int = 2
    leaked_daemons_fail: bool = False
    blocked_s: float = 10.0
    spurious_wakeups: int = 0

    def scheduler(self) -> Scheduler:
        """A scheduler with these bounds; close it."""
        return Scheduler(
            self.carrier,
            granularity=self.granularity,
            max_steps=self.max_steps,
            early_timers=self.early_timers,
            spurious_wakeups=self.spurious_wakeups,
            leaked_daemons_fail=self.leaked_daemons_fail,
        )


@dataclass(slots=True)
class Found:
    """One distinct failure.

    Attributes:
        failure: as the minimised schedule shows it.
        token: replays it.
        trace: operations of the minimised run.
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
        points: distinct operations (kind and target) of the first execution, traced.
        threads: most tasks in one execution.
        timers_fired, early_timers_fired, steps, decisions: totals over the search.
        uncontrolled: calls, threads and replay differences outside the engine's control.
        cut: executions that reached the step bound.
        blocked: executions that were given up because a call did not return.
    """

    points: list[str] = field(default_factory=list)
    threads: int = 0
    timers_fired: int = 0
    early_timers_fired: int = 0
    steps: int = 0
    decisions: int = 0
    uncontrolled: list[str] = field(default_factory=list)
    cut: int = 0
    blocked: int = 0

    def add(self, run: Run) -> None:
        """Count one execution."""
        self.threads = max(self.threads, run.threads)
        self.timers_fired += run.timers_fired
        self.early_timers_fired += run.early_fired
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
    expected, got) or ``ERROR`` (it failed in another way).
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
        shrink: minimise each distinct failure.
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
    scheduler = bounds.scheduler()
    collecting = gc.isenabled()
    gc.disable()
    started = time.monotonic()
    guards = contextlib.ExitStack()
    if bounds.carrier == "greenlet":
        guards.enter_context(watch(scheduler, bounds.blocked_s))
    try:
        _first(scheduler, program, result, check_determinism=check_determinism)
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
                _found(scheduler, program, result, run, shrink=shrink)
                if not find_all:
                    result.stopped = "failure"
                    break
            if result.schedules % _COLLECT_EVERY == 0:
                gc.collect(1)
                if progress is not None:
                    progress(result)
    finally:
        result.elapsed_s = time.monotonic() - started
        guards.close()
        scheduler.close()
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
    identity: str | None = None,
) -> ReplayResult:
    """Run ``program`` once under a recorded schedule, with a trace.

    Args:
        schedule: a token, what it encodes, or named steps.
        program: as for `explore`.
        name: the program's name when it was recorded.
        carrier: ``greenlet`` or ``thread``.
        bounds: for named steps, which do not carry the bounds they were recorded under.
        identity: for named steps, the failure that counts as ``VIOLATED``; by default any.

    Raises:
        UsageError: for a damaged token, or one that was recorded on another program.
    """
    if isinstance(schedule, str):
        schedule = tokens.decode(schedule)
    expected = fingerprint(identity or "")
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
        expected = schedule.failure
    else:
        bounds = dataclasses.replace(bounds or Bounds(), carrier=carrier)
        follow = NamedReplay(schedule)
    scheduler = bounds.scheduler()
    follow.new_execution()
    try:
        run = scheduler.run(program, follow, trace=True, timeout=bounds.blocked_s)
    finally:
        scheduler.close()
    if run.failure is not None:
        same = not expected or fingerprint(run.failure.identity) == expected
        return ReplayResult("VIOLATED" if same else "ERROR", run, follow.diverged)
    if follow.diverged is None and follow.unused():
        follow.diverged = (run.decisions, f"{follow.unused()} more switches", "the end of the program")
    return ReplayResult("DIVERGED" if follow.diverged else "FIXED", run, follow.diverged)


def _first(
    scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult, *, check_determinism: bool
) -> None:
    """Trace one execution for the certificate, before the search."""
    follow = Replay([])
    follow.new_execution()
    run = scheduler.run(program, follow, trace=True, timeout=result.bounds.blocked_s)
    result.certificate.add(run)
    result.certificate.points = sorted({f"{s.kind} {s.target}".rstrip() for s in run.trace or []})
    if check_determinism:
        for probe in (Replay([]), make_strategy("random", result.seed)):
            difference: Difference | None = verify_determinism(scheduler, program, probe)
            if difference is not None:
                result.certificate.uncontrolled.append(f"nondeterminism at {difference}")


def _found(
    scheduler: Scheduler, program: Callable[[], Any], result: ExploreResult, run: Run, *, shrink: bool
) -> None:
    assert run.failure is not None
    for known in result.failures:
        if known.failure.identity == run.failure.identity:
            known.count += 1
            return
    small = minimise(scheduler, program, run.tape, run.failure.identity) if shrink else None
    tape = small.tape if small is not None else run.tape
    follow = Replay(tape)
    naming = Naming(follow)
    naming.new_execution()
    again = scheduler.run(program, naming, trace=True, timeout=result.bounds.blocked_s)
    if again.failure is None or again.failure.identity != run.failure.identity:
        got = again.failure.identity if again.failure else "no failure"
        result.certificate.uncontrolled.append(
            f"a failing run did not replay: expected {run.failure.identity}, got {got}"
        )
    schedule = Schedule(
        fingerprint(result.program),
        result.bounds.granularity,
        result.bounds.early_timers,
        result.bounds.max_steps,
        tuple(tape),
        tuple(follow.arity_seen),
        fingerprint(run.failure.identity),
        result.bounds.spurious_wakeups,
    )
    failure = again.failure or run.failure
    trace = again.trace or []
    result.failures.append(
        Found(failure, tokens.encode(schedule), trace, result.schedules, 1, small, schedule, naming.steps)
    )
