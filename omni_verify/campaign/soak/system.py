"""What a soak loads: the protocol of systems, and the end of one of their parts."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from omni_verify.audit import shm
from omni_verify.harness.soak.messages import Report
from omni_verify.harness.soak.plan import Plan
from omni_verify.targets.protocol import TargetInfo

__all__ = ["Death", "SoakSystem"]


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system has ended without being asked to.

    Attributes:
        stage: which one; -1 for the parent of all.
        pid: of the process that ended.
        code: exit status, negative for a signal.
        log: the end of what it wrote, stacks of a crash included.
    """

    stage: int
    pid: int
    code: int
    log: str = ""

    @property
    def how(self) -> str:
        """The end in words."""
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return f"ended itself with status {self.code}"


class SoakSystem(Protocol):
    """Something that takes requests for a long time and can be measured.

    Reports come from `poll` as (part number, report); a `Death` is one too.
    """

    info: TargetInfo
    isolation: str
    parts: Sequence[int]
    """Numbers of the parts that a request passes."""
    inspects: bool
    """Whether its parts answer `inspect`."""

    def start(self) -> None:
        """Bring it up; raises `TargetUnusableError`."""

    def submit(self, plans: list[Plan]) -> None:
        """Start requests."""

    def abort(self, indices: list[int], parts: Sequence[int], *, at_once: bool = False) -> None:
        """Tell parts that clients have left."""

    def forget(self, indices: list[int], *, release: bool = True) -> None:
        """Tell all parts that requests are over everywhere, and whether to release what they left."""

    def quiesce(self, number: int) -> None:
        """Ask all parts to come to rest and say so."""

    def inspect(self, number: int, *, collect: bool = False, trim: bool = False) -> None:
        """Ask all parts for their figures."""

    def poll(self, timeout_s: float) -> list[tuple[int, Report | Death]]:
        """Wait for reports, at most so long."""

    def pids(self) -> Mapping[str, int]:
        """Process ids by part name, for the sampler."""

    def signal(self, stage: int, number: int) -> int:
        """Send a signal to a part's process; return its pid, 0 when there is none."""

    def restart(self, stage: int) -> None:
        """Bring a part up again that has ended."""

    def sweep(self, label: str) -> tuple[str, ...]:
        """Remove what lies in shared memory of one request; return the names."""

    def sweep_journals(self) -> None:
        """Remove what parts that have ended noted for whoever cleans up behind them."""

    def shm(self) -> shm.Listing:
        """What lies in its shared memory now."""

    def close(self) -> list[str]:
        """End it in order; return the names that it left in shared memory."""
