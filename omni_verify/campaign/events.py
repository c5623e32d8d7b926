"""What a campaign tells while it runs; reports consume it, nobody prints here."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from omni_verify.campaign.result import RunResult
from omni_verify.harness.result import CaseResult
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict

__all__ = ["CaseFinished", "CaseStarted", "Emit", "Event", "RunFinished", "RunStarted", "TargetLoading"]


class TargetLoading(msgspec.Struct, frozen=True, kw_only=True):
    """A target is being fetched and loaded, which may take minutes the first time."""

    spec: str
    loader: str


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The target is loaded and `cases` scenarios will run, `jobs` at a time."""

    command: str
    target: TargetInfo
    isolation: str
    cases: tuple[str, ...]
    jobs: int
    isolation_reason: str = ""


class CaseStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario was handed to the zygote."""

    id: str


class CaseFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario has its result; `expected` is set when known failures are in use."""

    case: CaseResult
    expected: Verdict | None = None


class RunFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The run is over."""

    result: RunResult


Event = TargetLoading | RunStarted | CaseStarted | CaseFinished | RunFinished
Emit = Callable[[Event], None]
