"""What fuzzing is made of: batches, failures, and the published JSON ``omni-verify/fuzz/1``."""

from __future__ import annotations

from typing import Literal

import msgspec

from omni_verify.campaign.coverage import Coverage, Gaps
from omni_verify.campaign.explore.exploration import FailureRecord
from omni_verify.campaign.result import ToolRecord
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.rules import EAGER, RUSH
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict

__all__ = ["SEED_STEP", "Batch", "BatchResult", "FuzzFailure", "FuzzReport", "traits_of"]

SEED_STEP = 1_000_003
"""Program seeds between two seeds of a run."""
_PLAIN = {"admit", "emit", "end", "join", "read", "finish", "sync"}


class FuzzFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct failure with its smallest program.

    Two failures are the same when the contract and the message, the strikes that the smallest run still
    needs, and the traits of the smallest program agree.

    Attributes:
        identity: broken contract and message, without names and numbers.
        strikes: nemeses that struck in the smallest run.
        traits: what is special about the smallest program, see `traits_of`.
        also: identities of what else the smallest run breaks.
        pair, where: operations that meet in it, and the place in the target's code, see `fuzz.roots`.
        program: the smallest program, its operations in order.
        seed: program seed that found it.
        record: token, story, cost and replays.
    """

    identity: str
    strikes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    where: str = ""
    program: str = ""
    seed: int = 0
    record: FailureRecord

    @property
    def key(self) -> str:
        """What makes two failures the same one."""
        return " | ".join((self.identity, ", ".join(self.strikes), ", ".join(self.traits)))

    def explains(self, identity: str, strikes: set[str], traits: set[str]) -> bool:
        """Tell whether a failing run shows nothing that this failure does not show with less."""
        shows = identity in (self.identity, *self.also)
        return shows and set(self.strikes) <= strikes and set(self.traits) <= traits


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a fuzzing run: `programs` programs from `seed` on, `schedules` runs each.

    Attributes:
        nemeses: names that may strike.
        known: failures that need no second example.
        time_s: real seconds after which it stops between two programs.
    """

    number: int
    seed: int
    programs: int
    schedules: int
    nemeses: tuple[str, ...] = ()
    known: tuple[FuzzFailure, ...] = ()
    time_s: float = 60.0


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch ran and found; `error` is set when its process did not answer."""

    number: int
    programs: int = 0
    runs: int = 0
    operations: int = 0
    shrink_runs: int = 0
    elapsed_s: float = 0.0
    failures: tuple[FuzzFailure, ...] = ()
    repeats: dict[str, int] = {}
    coverage: Coverage = msgspec.field(default_factory=Coverage)
    uncontrolled: tuple[str, ...] = ()
    error: str = ""


class FuzzReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``omni-verify fuzz``; also the file from which it resumes.

    Attributes:
        roots: keys of the failures, grouped by root cause.
        operations: operations of all programs, played once for each run.
        shrink_runs: runs that the search for smaller examples took, besides `runs`.
        sessions: how often the run was begun or resumed.
    """

    schema: Literal["omni-verify/fuzz/1"] = "omni-verify/fuzz/1"
    command: str = "fuzz"
    tool: ToolRecord = ToolRecord()
    target: TargetInfo
    verdict: Verdict
    reason: str = ""
    started: str
    duration_s: float
    seed: int
    nemeses: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    programs: int = 0
    runs: int = 0
    operations: int = 0
    shrink_runs: int = 0
    sessions: int = 1
    failures: tuple[FuzzFailure, ...] = ()
    roots: tuple[tuple[str, ...], ...] = ()
    repeats: dict[str, int] = {}
    coverage: Coverage = msgspec.field(default_factory=Coverage)
    gaps: Gaps = Gaps()
    uncontrolled: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    isolation: str = "mount"
    interrupted: str = ""


def traits_of(program: Program) -> tuple[str, ...]:
    """Name what sets a program apart from plain streams that are sent and read."""
    found = {op.verb for op in program.ops} - _PLAIN
    admitted: set[str] = set()
    for op in program.ops:
        if op.verb == "admit":
            if op.label in admitted:
                found.add("rush-reuse" if op.n & RUSH else "eager-reuse" if op.n & EAGER else "reuse")
            admitted.add(op.label)
    if program.connector:
        found.add("other-connector")
    if program.stages > 2:
        found.add("relay")
    return tuple(sorted(found))
