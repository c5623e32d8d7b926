"""What a forked child does for fuzzing: play a batch of generated programs, shrink what is new."""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.coverage import count, observe
from omni_verify.campaign.explore import story as stories
from omni_verify.campaign.explore.exploration import FailureRecord
from omni_verify.campaign.explore.job import name_of
from omni_verify.campaign.fuzz import token as fuzz_token
from omni_verify.campaign.fuzz.fuzzing import Batch, BatchResult, FuzzFailure, traits_of
from omni_verify.campaign.fuzz.roots import operation_pair, place
from omni_verify.campaign.fuzz.shrink import Shrunk, shrink
from omni_verify.engine.control.run import Run
from omni_verify.engine.control.scheduler import Scheduler
from omni_verify.engine.control.watchdog import watch
from omni_verify.engine.explore import Bounds
from omni_verify.engine.schedule import Schedule, fingerprint
from omni_verify.engine.strategies import make_strategy
from omni_verify.engine.strategies.replay import Replay
from omni_verify.harness.case import own_resource_tracker
from omni_verify.harness.explored import controlled
from omni_verify.harness.fuzz.generate import generate
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.workload import FuzzWorkload
from omni_verify.harness.siege import ALWAYS_JUDGED
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["ENTRY", "run"]

ENTRY = f"{__name__}:run"
"""Name of `run` for `Zygote.submit`."""
BOUNDS = Bounds(early_timers=0, blocked_s=20.0)
REPRODUCTIONS = 10
"""Replays that prove a token."""
_OBSERVE_EVERY = 4
"""Traces between two that are counted for the coverage."""
_NO_FAILURE = "no failure"


def run(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Play one batch; return an encoded `BatchResult`."""
    batch = msgspec.convert(arguments["batch"], Batch)
    prefix = "" if context.isolation == "mount" else context.prefix
    with _under_control(target) as (scheduler, missed):
        fuzzer = _Fuzzer(target, scheduler, batch, prefix)
        fuzzer.uncontrolled += missed
        fuzzer.play()
    return msgspec.msgpack.encode(fuzzer.result())


@contextlib.contextmanager
def _under_control(target: Target) -> Iterator[tuple[Scheduler, list[str]]]:
    own_resource_tracker()
    logging.disable(logging.CRITICAL)
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with controlled(target, BOUNDS.granularity) as missed:
        scheduler = BOUNDS.scheduler()
        gc.disable()  # no collection, and so no finalizer, inside a schedule
        try:
            with watch(scheduler, BOUNDS.blocked_s):
                yield scheduler, list(missed)
        finally:
            scheduler.close()
            gc.enable()


class _Fuzzer:
    def __init__(self, target: Target, scheduler: Scheduler, batch: Batch, prefix: str) -> None:
        self.target, self.scheduler, self.batch, self.prefix = target, scheduler, batch, prefix
        self.known = list(batch.known)
        self.found: list[FuzzFailure] = []
        self.repeats: dict[str, int] = {}
        self.coverage = observe(())
        self.coverage.runs = 0
        self.uncontrolled: list[str] = []
        self.unshrunk: set[tuple[str, ...]] = set()
        self.programs = self.runs = self.operations = self.shrink_runs = 0
        self.began = time.monotonic()

    def play(self) -> None:
        """Play every program of the batch, or as many as the time allows."""
        for number in range(self.batch.programs):
            if time.monotonic() - self.began > self.batch.time_s:
                return
            seed = self.batch.seed + number
            program = generate(seed, self.batch.nemeses)
            self.programs += 1
            count(self.coverage.verbs, ((op.verb, 1) for op in program.ops))
            strategy = make_strategy("portfolio", seed)
            for _ in range(self.batch.schedules):
                if strategy.new_execution():
                    workload = FuzzWorkload(self.target, program, prefix=self.prefix)
                    run = self.scheduler.run(workload, strategy, timeout=BOUNDS.blocked_s)
                    strategy.executed(run)
                    self._take(workload, run, seed)
            gc.collect(1)

    def _take(self, workload: FuzzWorkload, run: Run, seed: int) -> None:
        self.runs += 1
        self.operations += len(workload.fuzzed.ops)
        if self.runs % _OBSERVE_EVERY == 0:
            self.coverage.add(observe(workload.last, ALWAYS_JUDGED))
        struck = {s.nemesis for s in workload.run.roaming.struck} if workload.run is not None else set()
        count(self.coverage.nemeses, ((name, 1) for name in struck))
        for line in run.uncontrolled:
            if line not in self.uncontrolled:
                self.uncontrolled.append(line)
        if run.failure is None:
            return
        traits = set(traits_of(workload.fuzzed))
        identities = list(workload.findings) or [run.failure.identity]
        for identity in identities:
            self._judge(identity, struck, traits, workload.fuzzed, list(run.tape), seed)

    def _judge(
        self, identity: str, struck: set[str], traits: set[str], program: Program, tape: list[int], seed: int
    ) -> None:
        for failure in self.known:
            if failure.explains(identity, struck, traits):
                count(self.repeats, [(failure.key, 1)])
                return
        mark = (identity, *sorted(struck), *sorted(traits))
        if mark in self.unshrunk:
            return
        small = shrink(
            self.scheduler, self.target, program, tape, identity, prefix=self.prefix, timeout=BOUNDS.blocked_s
        )
        if small is None:
            self.unshrunk.add(mark)
            self.uncontrolled.append(f"a failing run did not replay: {identity} (program seed {seed})")
            return
        self.shrink_runs += small.runs
        failure = self._describe(identity, small, seed)
        if any(f.explains(identity, set(failure.strikes), set(failure.traits)) for f in self.known):
            self.unshrunk.add(mark)
            return
        self.known.append(failure)
        self.found.append(failure)

    def _describe(self, identity: str, small: Shrunk, seed: int) -> FuzzFailure:
        """Replay the smallest run, write its token and story."""
        workload = FuzzWorkload(self.target, small.program, prefix=self.prefix, wanted=identity)
        name = name_of(workload.__qualname__, self.target.info.name)
        again = []
        for _ in range(REPRODUCTIONS):
            follow = Replay(small.tape)
            follow.new_execution()
            run = self.scheduler.run(workload, follow, trace=True, timeout=BOUNDS.blocked_s)
            again.append(run.failure.identity if run.failure else _NO_FAILURE)
        schedule = Schedule(
            program=fingerprint(name),
            granularity=BOUNDS.granularity,
            early_timers=BOUNDS.early_timers,
            max_steps=BOUNDS.max_steps,
            tape=small.tape,
            arity=tuple(follow.arity_seen),
            failure=fingerprint(identity),
        )
        struck = workload.run.roaming.struck if workload.run is not None else []
        strikes = {s.nemesis for s in struck}
        finding = workload.findings.get(identity)
        keys = {finding.key} if finding is not None and finding.key else set()
        rows = (
            stories.rows_of_events(workload.last, keys) if finding else stories.rows_of_steps(run.trace or [])
        )
        return FuzzFailure(
            identity=identity,
            strikes=tuple(sorted(strikes)),
            traits=traits_of(small.program),
            also=tuple(i for i in workload.findings if i != identity),
            pair=operation_pair(workload.last, finding.key if finding is not None else ""),
            where=place(struck, _traceback(workload, run, finding)),
            program=str(small.program),
            seed=seed,
            record=FailureRecord(
                identity=identity,
                kind="contract" if finding else run.failure.kind if run.failure else "exception",
                message=finding.message if finding else run.failure.message if run.failure else identity,
                program=workload.__qualname__,
                target=self.target.info.name,
                invariant=finding.invariant if finding else "",
                task=run.failure.task if run.failure else "",
                detail="" if finding or run.failure is None else run.failure.detail,
                findings=(finding,) if finding else (),
                story=stories.shorten(rows, keys),
                token=fuzz_token.join(small.program, schedule),
                granularity=BOUNDS.granularity,
                execution=self.runs,
                preemptions=small.preemptions,
                switches=small.switches,
                steps=small.steps,
                reproduced=sum(i == identity for i in again),
                replays=REPRODUCTIONS,
            ),
        )

    def result(self) -> BatchResult:
        """What the batch ran and found."""
        return BatchResult(
            number=self.batch.number,
            programs=self.programs,
            runs=self.runs,
            operations=self.operations,
            shrink_runs=self.shrink_runs,
            elapsed_s=time.monotonic() - self.began,
            failures=tuple(self.found),
            repeats=self.repeats,
            coverage=self.coverage,
            uncontrolled=tuple(self.uncontrolled),
        )


def _traceback(workload: FuzzWorkload, run: Run, finding: Finding | None) -> str:
    """Traceback of a failure that is an exception; empty for others."""
    if finding is None:
        return run.failure.detail if run.failure else ""
    errors = workload.run.script.errors if workload.run is not None else {}
    error = errors.get(finding.key)
    return "".join(traceback.format_exception(error)) if error is not None else ""
