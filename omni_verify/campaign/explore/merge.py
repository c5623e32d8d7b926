"""Put the shards of a program together, in their order, and judge."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omni_verify.campaign.explore.exploration import FailureRecord, Plan, ProgramRecord, ShardResult
from omni_verify.campaign.explore.program_target import is_program
from omni_verify.verdict import Evidence, Finding, Verdict, judge

__all__ = ["distinct", "merged"]


def merged(
    program: str, plan: Plan, shards: Sequence[ShardResult], refusal: str, *, timed: bool
) -> tuple[ProgramRecord, list[FailureRecord]]:
    """Merge a program's shards up to the one that ended its search.

    Later shards that happened to run are left out, so that the number of workers changes nothing.

    Args:
        refusal: why the program does not apply to the target; empty when it does.
        timed: the search was bounded by time alone, so its end by time is its stated end.
    """
    if refusal:
        return ProgramRecord(id=program, verdict=Verdict.NOT_APPLICABLE, reason=refusal), []
    counted: list[ShardResult] = []
    failures: list[FailureRecord] = []
    for shard in shards:
        if shard.number != len(counted):
            break  # a gap: an earlier shard was not run
        before = sum(s.schedules for s in counted)
        counted.append(shard)
        failures += [msgspec.structs.replace(f, execution=f.execution + before) for f in shard.failures]
        if shard.complete or shard.error or shard.blocked or (shard.failures and not plan.find_all):
            break
    found = _joined(failures)
    findings = [
        Finding(
            invariant=f.invariant or f.kind, message=f.message, key=f.program, evidence={"token": f.token}
        )
        for f in found
    ]
    schedules = sum(s.schedules for s in counted)
    stopped = _stopped(counted, schedules, plan)
    uncontrolled = tuple(dict.fromkeys(line for s in counted for line in s.uncontrolled))
    gaps = list(uncontrolled[:3])
    gaps += [s.error for s in counted if s.error]
    if stopped == "time" and not timed:
        gaps.append(f"the time was over after {schedules} of {plan.budget} schedules")
    verdict, reason = judge(
        findings,
        Evidence(
            actors=("search",),
            finished=("search",) if stopped not in ("error", "blocked", "") else (),
            checked=schedules,
            cut="; ".join(gaps),
        ),
    )
    record = ProgramRecord(
        id=program,
        verdict=verdict,
        reason=reason,
        schedules=schedules,
        budget=plan.budget,
        duration_s=round(sum(s.elapsed_s for s in counted), 3),
        stopped=stopped,
        completeness=next((s.completeness for s in counted if s.completeness), ""),
        threads=max((s.threads for s in counted), default=0),
        timers_fired=sum(s.timers_fired for s in counted),
        points=max((len(s.points) for s in counted), default=0),
        decisions=sum(s.decisions for s in counted),
        cut=sum(s.cut for s in counted),
        uncontrolled=uncontrolled,
        failures=tuple(f.identity for f in found),
    )
    return record, found


def distinct(failures: Sequence[FailureRecord], target: str) -> tuple[FailureRecord, ...]:
    """De-duplicate over programs: one record an identity, with the cheapest example; add the command."""
    return tuple(
        msgspec.structs.replace(f, replay=_command(f, target))
        for f in sorted(_joined(failures), key=lambda f: (f.invariant, f.identity))
    )


def _joined(failures: Sequence[FailureRecord]) -> list[FailureRecord]:
    known: dict[str, FailureRecord] = {}
    for failure in failures:
        before = known.get(failure.identity)
        if before is None:
            known[failure.identity] = failure
            continue
        best = min(before, failure, key=lambda f: f.cost)
        known[failure.identity] = msgspec.structs.replace(
            best,
            count=before.count + failure.count,
            execution=min(before.execution, failure.execution),
            programs=tuple(dict.fromkeys((*before.programs, *failure.programs))),
        )
    return list(known.values())


def _stopped(shards: Sequence[ShardResult], schedules: int, plan: Plan) -> str:
    if not shards:
        return "time"
    last = shards[-1].stopped
    if last == "budget" and schedules < plan.budget:
        return "time"
    return last


def _command(failure: FailureRecord, target: str) -> str:
    if is_program(failure.program):
        more = "".join(f" --instrument {name}" for name in failure.instrument)
        return f"omni-verify replay {failure.token} --program {failure.program}{more}"
    where = "" if target == "reference" else f" --target '{target}'"
    return f"omni-verify replay {failure.token}{where}"
