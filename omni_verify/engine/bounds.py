"""The numbers that bound a search, and the scheduler that obeys them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omni_verify.engine.control.scheduler import Scheduler

__all__ = ["Bounds"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers that bound a search, and what runs it.

    Attributes:
        granularity: which operations are decision points: ``connector``, ``sync`` or ``access``.
        carrier: ``greenlet`` or ``thread``; no influence on results.
        max_steps: operations of one execution before the choice becomes fair. As many again are a livelock;
            they may be ten times more while virtual time passes, since then a slow poll may be all there is.
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

    def borrowed(self) -> _Borrowed:
        """A context with a scheduler for one search; the next search of the same thread gets it again.

        Its pooled greenlets are kept, because making them takes longer than a short search. OS threads
        are not: a finished search leaves none behind.
        """
        return _Borrowed(self)


class _Borrowed:
    __slots__ = ("_bounds", "_scheduler")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def __enter__(self) -> Scheduler:
        bounds = self._bounds
        spare: tuple[Bounds, Scheduler] | None = getattr(_spare, "one", None)
        _spare.one = None
        if spare is not None and (spare[0] is bounds or spare[0] == bounds):
            self._scheduler = spare[1]
        else:
            self._scheduler = bounds.scheduler()
        return self._scheduler

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None and self._bounds.carrier == "greenlet":
            self._scheduler.forget()
            _spare.one = self._bounds, self._scheduler
        else:
            self._scheduler.close()


# The scheduler of the last search, by OS thread: greenlets cannot change threads.
_spare = threading.local()
