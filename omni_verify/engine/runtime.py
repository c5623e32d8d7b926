"""What a scenario needs from whoever decides who runs next.

Two implementations: `gates.ThreadRuntime` runs real threads and enforces a partial order;
`control.ControlledRuntime` runs one task at a time under a strategy. A scenario cannot tell them
apart, so every scenario is also a workload of the explorer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from omni_verify.trace.event import Trace

__all__ = ["Cut", "Runtime"]


class Cut(Exception):
    """The run was cut off (a bound was reached); the case cannot be held any more."""


class Runtime(Protocol):
    """Decides when an actor may pass a point, and records that it did."""

    trace: Trace

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Arrive at a point: wait until the actor may pass, then record the event."""

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Declare an actor; it starts with `run`."""

    def run(self) -> None:
        """Start the declared actors that have not started and wait until all have ended.

        Raises:
            Cut: a bound was reached. An exception of an actor is kept in `failures`.
        """

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float | None = None) -> None:
        """Wait until `predicate()` is true; it must only read. `bound_s` replaces the default bound.

        Raises:
            Cut: the bound was reached.
        """

    def name_thread(self, thread: object, name: str) -> None:
        """Say which actor a thread of the target is."""

    @property
    def actors(self) -> list[str]:
        """Actors that were declared."""

    @property
    def finished(self) -> list[str]:
        """Actors that ran to their end."""

    @property
    def failures(self) -> dict[str, BaseException]:
        """Exceptions that ended an actor, by actor."""

    @property
    def cut(self) -> str:
        """Why the run was cut off, empty when it was not."""

    @property
    def stacks(self) -> str:
        """Wait-for graph and stacks of the moment of the cut."""
