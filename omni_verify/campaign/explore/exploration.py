"""What an exploration is made of: plans, shards, failures; and the published JSON ``omni-verify/explore/1``.

A *shard* is a fixed piece of the seed stream of one program, never of time or of a worker. So the
same seed gives the same result however many workers there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from omni_verify.campaign.result import ToolRecord
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Finding, Verdict

__all__ = [
    "SHARD_SCHEDULES",
    "SHRINK_RERUNS",
    "ExploreRun",
    "FailureRecord",
    "Plan",
    "ProgramRecord",
    "Row",
    "Shard",
    "ShardResult",
    "shards_of",
]

SHRINK_RERUNS = 400
"""Executions that shrinking one failure may take, unless a plan says otherwise."""
SHARD_SCHEDULES = 250
"""Executions of one shard."""
_ONE_SHARD = ("exhaustive", "dpor", "round_robin")
_SEED_STEP = 1_000_003


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How every program of an exploration is searched.

    Attributes:
        strategy: name from `omni_verify.engine.strategies`.
        seed: of the first shard; the others derive theirs from it.
        budget: executions of each program.
        granularity: ``connector``, ``sync`` or ``access``.
        find_all: go on after a program's first failure.
        early_timers: timers that may fire early in one execution.
        determinism: run the first executions twice and compare.
        instrument: more modules to control, for ``FILE.py:FUNCTION``.
        shrink_reruns: executions that shrinking one failure may take; 0 leaves it as it was found.
    """

    strategy: str = "portfolio"
    seed: int = 0
    budget: int = 200
    granularity: str = "sync"
    find_all: bool = False
    early_timers: int = 0
    determinism: bool = False
    instrument: tuple[str, ...] = ()
    shrink_reruns: int = SHRINK_RERUNS


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the search of one program: `budget` executions from `seed` on, at most `time_s` seconds."""

    program: str
    number: int
    seed: int
    budget: int
    plan: Plan
    time_s: float | None = None


class Row(msgspec.Struct, frozen=True):
    """One line of a story: an actor reached a point of a key; `detail` is its result or source line."""

    step: int
    actor: str
    point: str
    key: str = ""
    detail: str = ""


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct failure, as its minimised schedule shows it.

    Attributes:
        identity: what makes two failures the same one; free of schedules and addresses.
        kind: ``contract``, ``exception``, ``deadlock``, ``lost-wakeup``, ``leaked-thread`` or ``livelock``.
        invariant: id of the broken contract; empty for a failure of a plain function.
        program: scenario id or ``FILE.py:FUNCTION`` that shows it with the fewest preemptions.
        programs: all that showed it.
        target: family of the target; empty for a function.
        token: replays it.
        named: the token's switches by actor and point: (actor, point, occurrence, who goes on).
        execution: schedules until it was found, from 1.
        count: executions that failed this way.
        preemptions, switches, steps: cost of the minimised schedule; steps counts operations.
        reproduced: how many of `replays` replays showed it again.
    """

    schema: Literal["omni-verify/failure/1"] = "omni-verify/failure/1"
    identity: str
    kind: str
    message: str
    program: str
    target: str = ""
    invariant: str = ""
    programs: tuple[str, ...] = ()
    task: str = ""
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    story: tuple[Row, ...] = ()
    token: str = ""
    named: tuple[tuple[str, str, int, str], ...] = ()
    granularity: str = ""
    instrument: tuple[str, ...] = ()
    execution: int = 0
    count: int = 1
    preemptions: int = 0
    switches: int = 0
    steps: int = 0
    reproduced: int = 0
    replays: int = 0
    replay: str = ""

    @property
    def cost(self) -> tuple[int, int, int]:
        """What decides which example of one failure is shown."""
        return self.preemptions, self.switches, self.steps


class ShardResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard ran and found; `error` is set when its process did not answer."""

    program: str
    number: int
    schedules: int = 0
    decisions: int = 0
    steps: int = 0
    elapsed_s: float = 0.0
    threads: int = 0
    timers_fired: int = 0
    points: tuple[str, ...] = ()
    uncontrolled: tuple[str, ...] = ()
    cut: int = 0
    blocked: int = 0
    completeness: str = ""
    complete: bool = False
    stopped: str = ""
    failures: tuple[FailureRecord, ...] = ()
    error: str = ""


class ProgramRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The search of one program, all its shards together.

    Attributes:
        stopped: ``budget``, ``time``, ``failure``, ``exhausted``, ``blocked`` or ``error``.
        completeness: what was covered completely, in words; empty when the search only sampled.
        failures: identities, in the order found.
        points: distinct operations of its first execution.
    """

    id: str
    verdict: Verdict
    reason: str = ""
    schedules: int = 0
    budget: int = 0
    duration_s: float = 0.0
    stopped: str = ""
    completeness: str = ""
    threads: int = 0
    timers_fired: int = 0
    points: int = 0
    decisions: int = 0
    cut: int = 0
    uncontrolled: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


class ExploreRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``omni-verify explore``."""

    schema: Literal["omni-verify/explore/1"] = "omni-verify/explore/1"
    command: str = "explore"
    tool: ToolRecord = ToolRecord()
    target: TargetInfo
    verdict: Verdict
    started: str
    duration_s: float
    plan: Plan
    workers: int
    programs: tuple[ProgramRecord, ...]
    failures: tuple[FailureRecord, ...] = ()
    isolation: str = "mount"
    interrupted: str = ""


def shards_of(program: str, plan: Plan) -> Iterator[Shard]:
    """Cut the search of a program into its shards, in their order.

    A systematic strategy does not use the seed and cannot be cut.
    """
    whole = plan.strategy.startswith(_ONE_SHARD)
    size = plan.budget if whole else SHARD_SCHEDULES
    for number, first in enumerate(range(0, plan.budget, size)):
        yield Shard(
            program=program,
            number=number,
            seed=plan.seed + number * _SEED_STEP,
            budget=min(size, plan.budget - first),
            plan=plan,
        )
