"""Nemeses: what goes wrong on purpose, at a named point, the how-manieth time.

A fault sits between the ``enter`` and the ``exit`` point of an operation: *before* the real call
(which then does not happen) or *after* it (which did happen, and is reported otherwise). It
composes with every order and with exploration, because it decides nothing about who runs next.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

import msgspec

from omni_verify.engine.instrument import Interceptor, Replace

__all__ = ["Fault", "Injected", "Nemesis"]


class Injected(RuntimeError):
    """The exception that a nemesis raises in the place of a real failure."""


class Fault(msgspec.Struct, kw_only=True):
    """One planned fault.

    Attributes:
        point: operation, for example ``"put"``.
        key: glob over the operation's key without the run's prefix.
        times: strikes at these occurrences, from 1; empty strikes always.
        after: strike after the real call instead of in its place.
        error: exception to raise, or None.
        value: result to give when nothing is raised; called with the real result (None before).
        note: what it stands for, for the trace.
        struck: how often it has struck.
    """

    point: str
    key: str = "*"
    times: tuple[int, ...] = (1,)
    after: bool = False
    error: BaseException | None = None
    value: Callable[[Any], Any] | None = None
    note: str = ""
    seen: int = 0
    struck: int = 0


class Nemesis:
    """Strikes planned faults; an `engine.instrument.Interceptor`.

    Attributes:
        faults: what was planned.
        roaming: another interceptor that has its chances after the planned faults, or None.
    """

    def __init__(self, reach: Callable[..., None], prefix: str = "") -> None:
        self._reach, self._prefix = reach, prefix
        self.faults: list[Fault] = []
        self._holds: list[tuple[Fault, Callable[[], None]]] = []
        self.roaming: Interceptor | None = None

    def add(self, fault: Fault) -> Fault:
        """Plan a fault and return it (its `struck` count is evidence that it happened)."""
        self.faults.append(fault)
        return fault

    def hold(
        self, point: str, key: str, times: tuple[int, ...], wait: Callable[[], None], *, after: bool = False
    ) -> None:
        """Run `wait` before or after the real call; the call itself is left alone."""
        self._holds.append((Fault(point=point, key=key, times=times, after=after), wait))

    def before(self, point: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Strike in the place of the real call."""
        self._wait(point, key, after=False)
        fault = _due(self.faults, point, key.removeprefix(self._prefix), after=False)
        if fault is not None:
            self._strike(fault, key)
            raise Replace(fault.value(None) if fault.value else None)
        if self.roaming is not None:
            self.roaming.before(point, key, args, kwargs)

    def after(self, point: str, key: str, result: Any) -> Any:
        """Strike after the real call."""
        self._wait(point, key, after=True)
        fault = _due(self.faults, point, key.removeprefix(self._prefix), after=True)
        if fault is not None:
            self._strike(fault, key)
            result = fault.value(result) if fault.value else result
        return result if self.roaming is None else self.roaming.after(point, key, result)

    def _wait(self, point: str, key: str, *, after: bool) -> None:
        for hold, wait in self._holds:
            if _due([hold], point, key.removeprefix(self._prefix), after=after):
                wait()

    def _strike(self, fault: Fault, key: str) -> None:
        fault.struck += 1
        self._reach("fault", key, what=fault.note or f"{fault.point} {'after' if fault.after else 'before'}")
        if fault.error is not None:
            raise fault.error


def _due(faults: list[Fault], point: str, key: str, *, after: bool) -> Fault | None:
    """Count the call for every fault that it concerns; return the first that strikes now."""
    concerned = [
        f for f in faults if f.point == point and f.after is after and fnmatch.fnmatchcase(key, f.key)
    ]
    for fault in concerned:
        fault.seen += 1
    return next((f for f in concerned if not f.times or f.seen in f.times), None)
