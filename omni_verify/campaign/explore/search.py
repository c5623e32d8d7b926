"""Search the schedules of scenarios, or of a function, for failures."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import msgspec

from omni_verify.campaign import result, wire
from omni_verify.campaign.check import NothingSelectedError, chosen
from omni_verify.campaign.explore import besieged
from omni_verify.campaign.explore import job as explore_job
from omni_verify.campaign.explore.checkpoint import Checkpoint
from omni_verify.campaign.explore.exploration import (
    SHARD_SCHEDULES,
    SHRINK_RERUNS,
    ExploreRun,
    Plan,
    Shard,
    ShardResult,
    shards_of,
)
from omni_verify.campaign.explore.merge import distinct, merged
from omni_verify.campaign.explore.program_target import is_program
from omni_verify.campaign.workers import Workers, local, on_ray
from omni_verify.engine.control import GRANULARITIES
from omni_verify.engine.strategies import make_strategy
from omni_verify.errors import UsageError, unknown_value
from omni_verify.faults.nemeses import choose
from omni_verify.harness.scenario import Scenario
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict, combine

__all__ = ["FUNCTION_BUDGET", "SCENARIO_BUDGET", "Progress", "explore"]

SCENARIO_BUDGET, FUNCTION_BUDGET = SHARD_SCHEDULES, 2000
"""Schedules of each scenario, and of a function, when neither a budget nor a time is given."""
UNLIMITED = 1_000_000
"""Budget of a search that is bounded by time alone."""
GRACE_S = 60.0
"""Seconds beyond its own bound after which a shard is ended from outside (minimising, replaying)."""
SECONDS_A_SCHEDULE = 2.0
"""What one execution may take at most before its shard counts as hanging."""

Progress = Callable[[TargetInfo, Sequence[ShardResult], int], None]
"""Called with the target, the shards done so far and how many there are."""


def explore(
    program: str = "*",
    target: str = "reference",
    *,
    strategy: str = "portfolio",
    budget: int | None = None,
    seed: int = 0,
    time_s: float | None = None,
    granularity: str = "",
    instrument: Sequence[str] = (),
    workers: int = 1,
    ray: str = "",
    find_all: bool = False,
    determinism: bool = False,
    shrink_reruns: int = SHRINK_RERUNS,
    nemeses: Sequence[str] = (),
    checkpoint: Path | None = None,
    resume: bool = False,
    loader: str = "auto",
    isolation: str = "auto",
    progress: Progress = lambda info, done, total: None,
) -> ExploreRun:
    """Run every selected program under up to `budget` schedules and judge each.

    The result for a seed is the same whatever `workers` and `ray` say. It depends on the machine only
    when `time_s` ends the search.

    Args:
        program: glob over scenario ids, or ``FILE.py:FUNCTION``.
        target: for scenarios.
        strategy: name, see ``omni-verify list strategies``.
        budget: schedules of each program; without it, what `time_s` allows, else `SCENARIO_BUDGET` or
            `FUNCTION_BUDGET`.
        time_s: seconds for everything; a program that did not reach a given budget is inconclusive.
        granularity: ``connector``, ``sync`` or ``access``; empty means ``sync`` for scenarios and ``access``
            for functions.
        instrument: more modules of a function's program.
        workers: shards at a time.
        ray: ``"local"`` or a cluster's address; empty for this machine's processes.
        find_all: collect distinct failures instead of stopping a program at its first.
        determinism: check that a schedule runs twice alike.
        shrink_reruns: executions that shrinking one failure may take; 0 leaves it as it was found.
        nemeses: names of what may strike in scenarios; whether it does is a choice of the strategy.
        checkpoint, resume: see `Checkpoint`.

    Raises:
        UsageError: an option is wrong, or the checkpoint is of another exploration.
        NothingSelectedError: nothing explorable is selected.
        TargetUnusableError: the target or the cluster cannot be used.
    """
    single = is_program(program)
    timed = time_s is not None and budget is None
    plan = Plan(
        strategy=strategy,
        seed=seed,
        budget=budget or (UNLIMITED if timed else FUNCTION_BUDGET if single else SCENARIO_BUDGET),
        granularity=granularity or ("access" if single else "sync"),
        find_all=find_all,
        early_timers=2 if single else 0,
        determinism=determinism,
        instrument=tuple(instrument),
        shrink_reruns=shrink_reruns,
    )
    _check_options(plan, budget, workers)
    choose(nemeses)
    if single and nemeses:
        raise UsageError("nemeses strike in scenarios; a plain function has none of their points.")
    scenarios = {} if single else {besieged.name(s.id, nemeses): s for s in _explorable(program)}
    programs = (program,) if single else tuple(scenarios)
    kept = Checkpoint(
        checkpoint, resume=resume, target="" if single else target, programs=programs, plan=plan
    )
    began, started = time.monotonic(), result.utc_now()
    deadline = None if time_s is None else began + time_s
    held = (
        on_ray(ray, program if single else target, loader, isolation, workers)
        if ray
        else local(program if single else target, loader, isolation)
    )
    with held as crew:
        search = _Search(crew, plan, scenarios, kept, deadline)
        interrupted = search.run(programs, workers, progress)
        records = [
            merged(p, plan, search.results(p), search.refusals.get(p, ""), timed=timed) for p in programs
        ]
        info, mode = crew.info, crew.isolation
    verdicts = [record.verdict for record, _ in records]
    return ExploreRun(
        target=info,
        verdict=combine([*verdicts, *([Verdict.INCONCLUSIVE] if interrupted else [])]),
        started=started,
        duration_s=round(time.monotonic() - began, 3),
        plan=plan,
        workers=workers,
        programs=tuple(record for record, _ in records),
        failures=distinct([f for _, found in records for f in found], target),
        isolation=mode,
        interrupted=interrupted,
    )


def _check_options(plan: Plan, budget: int | None, workers: int) -> None:
    make_strategy(plan.strategy, plan.seed)
    if plan.granularity not in GRANULARITIES:
        raise unknown_value("granularity", plan.granularity, GRANULARITIES)
    if budget is not None and budget < 1:
        raise UsageError(f"--budget is the number of schedules; expected at least 1, got {budget}.")
    if workers < 1:
        raise UsageError(f"--workers must be at least 1, got {workers}.")


def _explorable(glob: str) -> list[Scenario]:
    scenarios = chosen([glob])
    if all(map(_unexplorable, scenarios)):
        raise NothingSelectedError(
            f"{glob!r} selects only scenarios that are not explorable: they fork processes or need a special "
            "/dev/shm. Run them with: omni-verify check"
        )
    return scenarios


def _unexplorable(scenario: Scenario) -> str:
    """Why a scenario is no workload for a strategy on any target; empty when it is one."""
    if scenario.processes:
        return "it forks processes, whose steps no strategy chooses"
    if scenario.shm_options:
        return f"it needs a /dev/shm of its own ({scenario.shm_options})"
    if not scenario.explorable:
        return "it judges real waits, sizes or long counts, in which an order of steps changes nothing"
    return ""


class _Search:
    """Keeps shards in flight, each program's in their order, until all are done or the time is over."""

    def __init__(
        self,
        crew: Workers,
        plan: Plan,
        scenarios: dict[str, Scenario],
        kept: Checkpoint,
        deadline: float | None,
    ) -> None:
        self.crew, self.plan, self.scenarios, self.kept, self.deadline = crew, plan, scenarios, kept, deadline
        self.done: dict[tuple[str, int], ShardResult] = dict(kept.done)
        self.refusals: dict[str, str] = {}

    def results(self, program: str) -> list[ShardResult]:
        """Shards of a program that were run, in order."""
        return [r for (name, _), r in sorted(self.done.items()) if name == program]

    def run(self, programs: Sequence[str], workers: int, progress: Progress) -> str:
        """Run every shard; return the name of the signal that interrupted, else an empty string."""
        for program in programs:
            refusal = self._refusal(program)
            if refusal:
                self.refusals[program] = refusal
        queue = [shards_of(p, self.plan) for p in programs if p not in self.refusals]
        total = len(queue)
        flying: dict[Future[wire.Outcome], Shard] = {}
        try:
            while True:
                while len(flying) < workers and (shard := self._next(queue)) is not None:
                    flying[self._submit(shard)] = shard
                if not flying:
                    return ""
                ready, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in ready:
                    self._finish(flying.pop(future), future.result())
                progress(self.crew.info, list(self.done.values()), total)
        except KeyboardInterrupt as stop:
            return str(stop) or "SIGINT"

    def _next(self, queue: list[Iterator[Shard]]) -> Shard | None:
        """Next shard, round robin over the programs; those whose search is over are left out."""
        while queue:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                return None
            shards = queue.pop(0)
            shard = next((s for s in shards if (s.program, s.number) not in self.done), None)
            if shard is None or self._over(shard):
                continue
            queue.append(shards)
            return shard
        return None

    def _over(self, shard: Shard) -> bool:
        """Whether an earlier shard of the program ended its search."""
        return any(
            r.complete or r.error or r.blocked or (r.failures and not self.plan.find_all)
            for r in self.results(shard.program)
            if r.number < shard.number
        )

    def _submit(self, shard: Shard) -> Future[wire.Outcome]:
        limit = shard.budget * SECONDS_A_SCHEDULE + GRACE_S
        if self.deadline is not None:
            left = max(0.1, self.deadline - time.monotonic())
            shard = msgspec.structs.replace(shard, time_s=left)
            limit = left + GRACE_S
        scenario = self.scenarios.get(shard.program)
        return self.crew.submit(
            explore_job.SEARCH,
            {"shard": msgspec.to_builtins(shard)},
            limit_s=limit,
            shm_options=scenario.shm_options if scenario else "",
        )

    def _finish(self, shard: Shard, outcome: wire.Outcome) -> None:
        read = read_shard(shard, outcome)
        self.done[shard.program, shard.number] = read
        self.kept.keep(read)

    def _refusal(self, program: str) -> str:
        """Why a scenario does not apply; empty when it does."""
        scenario = self.scenarios.get(program)
        if scenario is None:
            return ""
        if reason := _unexplorable(scenario):
            return reason
        missing = [need for need in scenario.needs if need not in self.crew.info.capabilities]
        if missing:
            return f"the target lacks: {', '.join(missing)}"
        if scenario.isolation == "mount" and self.crew.isolation != "mount":
            return "it needs a private mount namespace"
        return ""


def read_shard(shard: Shard, outcome: wire.Outcome) -> ShardResult:
    """Turn the outcome of a job into its result; a crash and a hang make the search inconclusive."""
    if outcome.payload is not None and not outcome.timed_out:
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(outcome.payload, type=ShardResult)
    error = wire.failure_of(outcome, "the search")
    return ShardResult(program=shard.program, number=shard.number, stopped="error", error=error)
