"""What a forked child does for an exploration: search a shard, replay a schedule, shrink one."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.explore import besieged
from omni_verify.campaign.explore import story as stories
from omni_verify.campaign.explore.exploration import FailureRecord, Plan, Row, Shard, ShardResult
from omni_verify.campaign.explore.program_target import ProgramTarget, is_program, program_label
from omni_verify.engine import explore as engine
from omni_verify.engine import token as tokens
from omni_verify.engine.control import Failure, Run, Step, instrument, load_modules
from omni_verify.engine.schedule import NamedStep
from omni_verify.engine.strategies.replay import Replay
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["REPLAY", "SEARCH", "SHRINK", "Replayed", "name_of", "replay", "search", "shrink"]

SEARCH, REPLAY, SHRINK = (f"{__name__}:{entry}" for entry in ("search", "replay", "shrink"))
REPRODUCTIONS = 10
"""Replays that prove a token."""
BLOCKED_S = 20.0
"""Seconds of real time without progress after which a run counts as blocked."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of `replay`.

    Attributes:
        outcome: ``VIOLATED``, ``FIXED``, ``DIVERGED`` or ``ERROR``.
        diverged: decision, expected, got.
        digest: SHA-256 of the trace; equal on every carrier and Python version.
        outcomes: of each repetition.
        events: every named point of a scenario's failing run, in order.
        digests: how many different traces the repetitions had.
    """

    outcome: str
    diverged: tuple[int, str, str] | None = None
    message: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    story: tuple[Row, ...] = ()
    events: tuple[Row, ...] = ()
    digest: str = ""
    outcomes: tuple[str, ...] = ()
    digests: int = 1
    uncontrolled: tuple[str, ...] = ()


def name_of(program: str, family: str) -> str:
    """Identity of a program in tokens: a scenario on a family of targets, or a function in its file.

    A seeded bug (``reference@M33``) is of the family that it was seeded in, so its token shows that the sound
    one is free of it.
    """
    return program_label(program) if is_program(program) else f"{program}@{family.partition('@')[0]}"


def search(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Search one shard; return an encoded `ShardResult`."""
    shard = msgspec.convert(arguments["shard"], Shard)
    plan, bounds = shard.plan, _bounds(shard.plan)
    with _program(target, shard.program, plan, context) as (program, name, missed):
        result = engine.explore(
            program,
            strategy=plan.strategy,
            budget=shard.budget,
            seed=shard.seed,
            time_s=shard.time_s,
            name=name,
            bounds=bounds,
            find_all=plan.find_all,
            max_reruns=plan.shrink_reruns,
            check_determinism=plan.determinism and shard.number == 0,
        )
        failures = tuple(
            _record(found, shard.program, target, program, result, context) for found in result.failures
        )
    seen = result.certificate
    return msgspec.msgpack.encode(
        ShardResult(
            program=shard.program,
            number=shard.number,
            schedules=result.schedules,
            decisions=seen.decisions,
            steps=seen.steps,
            elapsed_s=result.elapsed_s,
            threads=seen.threads,
            timers_fired=seen.timers_fired,
            points=tuple(seen.points),
            uncontrolled=(*missed, *seen.uncontrolled),
            cut=seen.cut,
            blocked=seen.blocked,
            completeness=result.completeness if result.complete else "",
            complete=result.complete and result.stopped == "exhausted",
            stopped=result.stopped,
            failures=failures,
        )
    )


def replay(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Replay a token (or named steps) `times` times; return an encoded `Replayed`."""
    plan = msgspec.convert(arguments["plan"], Plan)
    named = [NamedStep(*step) for step in arguments.get("named") or ()]
    recorded = tokens.decode(arguments["token"])
    schedule: Any = named or arguments["token"]
    if not named:
        plan = msgspec.structs.replace(plan, granularity=recorded.granularity)
    outcomes, digests, first = [], set(), None
    with _program(target, arguments["program"], plan, context, arguments["token"]) as (program, name, missed):
        for _ in range(arguments.get("times", 1)):
            done = engine.replay(
                schedule,
                program,
                name=name,
                carrier=arguments["carrier"],
                bounds=_bounds(plan),
                failure=recorded.failure,
            )
            outcomes.append(done.outcome)
            digests.add(_digest(done.run, context.prefix))
            first = first or done
    assert first is not None
    failure = first.run.failure
    findings, rows = _told(failure, first.run.trace or [])
    keys = {f.key for f in findings if f.key}
    return msgspec.msgpack.encode(
        Replayed(
            outcome=outcomes[0],
            diverged=first.diverged,
            message=failure.message if failure else "",
            detail=failure.detail if failure else "",
            findings=findings,
            story=stories.shorten(rows, keys),
            events=_named_events(failure),
            digest=_digest(first.run, context.prefix),
            outcomes=tuple(outcomes),
            digests=len(digests),
            uncontrolled=(*missed, *first.run.uncontrolled),
        )
    )


def shrink(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Minimise a token's schedule; return an encoded list of at most one `FailureRecord`."""
    plan = msgspec.convert(arguments["plan"], Plan)
    schedule = tokens.decode(arguments["token"])
    plan = msgspec.structs.replace(plan, granularity=schedule.granularity, early_timers=schedule.early_timers)
    with _program(target, arguments["program"], plan, context, arguments["token"]) as (program, name, _):
        result = engine.explore(
            program,
            strategy=Replay(schedule.tape),
            budget=1,
            name=name,
            bounds=_bounds(plan),
            max_reruns=plan.shrink_reruns,
        )
        found = [
            _record(one, arguments["program"], target, program, result, context) for one in result.failures
        ]
    return msgspec.msgpack.encode(found)


@contextlib.contextmanager
def _program(
    target: Target, program: str, plan: Plan, context: wire.JobContext, token: str = ""
) -> Iterator[tuple[Callable[[], Any], str, list[str]]]:
    """The program under control, its name in tokens, and what could not be controlled."""
    random.seed(0)
    name = name_of(program, target.info.name)
    if isinstance(target, ProgramTarget):
        assert target.function is not None
        modules = [*target.modules()["program"], *load_modules(plan.instrument)]
        with instrument(modules, plan.granularity) as missed:
            yield target.function, name, missed
        return
    from omni_verify.harness.besieged import BesiegedWorkload
    from omni_verify.harness.case import own_resource_tracker
    from omni_verify.harness.explored import Workload, controlled
    from omni_verify.harness.fuzz.program import Program
    from omni_verify.harness.fuzz.workload import PREFIX as FUZZED
    from omni_verify.harness.fuzz.workload import FuzzWorkload
    from omni_verify.harness.scenario import get

    own_resource_tracker()
    logging.disable(logging.CRITICAL)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    workload: Workload
    if program.startswith(FUZZED):
        wanted = tokens.decode(token).failure if token else ""
        fuzzed = Program.decode(program.removeprefix(FUZZED))
        workload = FuzzWorkload(target, fuzzed, prefix=_prefix(context), wanted=wanted)
    else:
        scenario_id, nemeses = besieged.parts(program)
        prefix = _prefix(context)
        workload = (
            BesiegedWorkload(target, get(scenario_id), nemeses, prefix=prefix)
            if nemeses
            else Workload(target, get(scenario_id), prefix=prefix)
        )
    with controlled(target, plan.granularity) as missed:
        yield workload, name, missed


def _prefix(context: wire.JobContext) -> str:
    """A private /dev/shm needs no prefix, and without one every run has the same keys."""
    return "" if context.isolation == "mount" else context.prefix


def _bounds(plan: Plan) -> engine.Bounds:
    return engine.Bounds(plan.granularity, early_timers=plan.early_timers, blocked_s=BLOCKED_S)


def _record(
    found: engine.Found,
    program: str,
    target: Target,
    body: Callable[[], Any],
    result: engine.ExploreResult,
    context: wire.JobContext,
) -> FailureRecord:
    failure, prefix = found.failure, _prefix(context)
    from omni_verify.campaign.fuzz import token as fuzz_token

    findings, rows = _told(failure, found.trace)
    first = findings[0] if findings else None
    again = [
        engine.replay(found.token, body, name=result.program).outcome == "VIOLATED"
        for _ in range(REPRODUCTIONS)
    ]
    return FailureRecord(
        identity=_plain(failure.identity, prefix),
        kind="contract" if first else failure.kind,
        message=_plain(first.message if first else failure.message, prefix),
        program=program,
        target="" if is_program(program) else target.info.name,
        invariant=first.invariant if first else "",
        programs=(program,),
        task=failure.task,
        detail=_plain("" if first else failure.detail, prefix),
        findings=findings,
        story=stories.shorten(rows, {f.key for f in findings if f.key}),
        token=fuzz_token.wrap(program, besieged.join(program, found.token)),
        named=tuple((n.actor, n.point, n.occurrence, n.to) for n in found.named),
        granularity=result.bounds.granularity,
        execution=found.execution,
        count=found.count,
        preemptions=found.minimised.preemptions if found.minimised else 0,
        switches=found.minimised.switches if found.minimised else found.schedule.deviations,
        steps=found.minimised.steps if found.minimised else len(found.trace),
        reproduced=sum(again),
        replays=REPRODUCTIONS,
    )


def _told(failure: Failure | None, trace: list[Step]) -> tuple[tuple[Finding, ...], list[Row]]:
    """Findings of a failure, and the rows of its run."""
    findings: tuple[Finding, ...] = tuple(getattr(failure and failure.exception, "findings", ()))
    events = getattr(failure and failure.exception, "events", None)
    if events is None:
        return findings, stories.rows_of_steps(trace)
    return findings, stories.rows_of_events(events, {f.key for f in findings if f.key})


def _named_events(failure: Failure | None) -> tuple[Row, ...]:
    events = getattr(failure and failure.exception, "events", ())
    return tuple(
        Row(e.seq, e.actor, e.point, e.key, "found" if e.detail.get("found") else "") for e in events
    )


def _digest(run: Run, prefix: str) -> str:
    lines = (f"{s.task}|{s.kind}|{s.target}|{s.detail}|{s.where}" for s in run.trace or [])
    return hashlib.sha256(_plain("\n".join(lines), prefix).encode()).hexdigest()[:16]


def _plain(text: str, prefix: str) -> str:
    return text.replace(prefix, "") if prefix else text
