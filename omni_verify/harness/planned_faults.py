"""Faults and pauses that a script plans before its actors run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from omni_verify.engine.runtime import Runtime
from omni_verify.faults.nemesis import Fault, Injected, Nemesis

__all__ = ["PlannedFaults"]


class PlannedFaults:
    """Verbs that put a nemesis, or a pause, at a point."""

    runtime: Runtime
    faults: Nemesis
    until: Callable[[Callable[[], bool], str], None]
    explored: bool
    followed: bool
    paused: bool

    def fault(
        self,
        point: str,
        key: str = "*",
        *,
        times: Iterable[int] = (1,),
        after: bool = False,
        error: BaseException | None = None,
        value: Callable[[Any], Any] | None = None,
        note: str = "",
    ) -> Fault:
        """Plan a fault at an operation; see `faults.nemesis.Fault`."""
        return self.faults.add(
            Fault(point=point, key=key, times=tuple(times), after=after, error=error, value=value, note=note)
        )

    def pause(
        self, point: str, key: str = "*", *, until: Callable[[], bool], what: str, times: Iterable[int] = (1,)
    ) -> None:
        """Hold the actor that is about to do an operation until `until()` is true; it must only read.

        For windows whose end depends on how the target protects itself (it blocks the other side, or
        lets it through); an order says the rest. Explored runs ignore it, as they ignore orders.
        """
        self._hold(point, key, tuple(times), until, what, after=False)

    def after(self, point: str, key: str = "*", *, until: Callable[[], bool], what: str) -> None:
        """Hold the actor right after it did an operation until `until()` is true; as `pause`."""
        self._hold(point, key, (1,), until, what, after=True)

    def _hold(
        self,
        point: str,
        key: str,
        times: tuple[int, ...],
        until: Callable[[], bool],
        what: str,
        *,
        after: bool,
    ) -> None:
        if self.explored or self.followed:
            self.paused = True
        else:
            self.faults.hold(point, key, times, lambda: self.until(until, what), after=after)

    def fail_put(
        self, key: str = "*", *, times: Iterable[int] = (1,), created: bool = False, raises: bool = False
    ) -> Fault:
        """Make a put fail: by False or by an exception, before or after the object exists."""
        return self.fault(
            "put",
            key,
            times=times,
            after=created,
            error=Injected("injected: the put failed") if raises else None,
            value=None if raises else lambda _result: (False, 0, None),
            note=f"put {'raises' if raises else 'returns False'}{' after creation' if created else ''}",
        )
