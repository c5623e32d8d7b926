"""Nemeses that roam: whether one strikes is a data choice at every chance it gets.

Under the controlled scheduler the choice is the strategy's and lies on the tape, so a token replays
the strikes with the schedule and the minimiser takes away those that are not needed. On real threads
there is no strategy: a nemesis then strikes at its first chances.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from omni_verify.engine.control import state
from omni_verify.engine.instrument import Replace
from omni_verify.faults.nemeses.spec import PROCEED, Blow, Harm, NemesisSpec

__all__ = ["ODDS", "Roaming", "Strike"]

ODDS = 4
"""A chance is a choice among so many values, of which one strikes."""

_HITS = 1


class Strike(msgspec.Struct, frozen=True, kw_only=True):
    """One strike that happened.

    Attributes:
        nemesis: its name.
        key: of the operation, without the run's prefix.
        harm: what the struck stream may show.
        leaves: the key's objects may outlive their stream.
        where: function of the target's adapter that it hit; empty outside an adapter.
    """

    nemesis: str
    key: str
    harm: Harm
    leaves: bool = False
    where: str = ""

    def concerns(self, label: str) -> bool:
        """Tell whether the stream of an external id was struck; a strike without a key strikes all."""
        return self.key in ("", label) or self.key.rsplit("_", 2)[0] == label


class Roaming:
    """Gives every nemesis its chances; an `engine.instrument.Interceptor`.

    Args:
        specs: the nemeses of this run.
        choose: ``choose(n, what)`` of the runtime, or None on real threads.
        reach: records the point ``fault``.
        prefix: of the run's keys.
        strikes: at most so many in one run, all nemeses together.
    """

    def __init__(
        self,
        specs: Sequence[NemesisSpec],
        choose: Callable[[int, str], int] | None,
        reach: Callable[..., None],
        *,
        prefix: str = "",
        strikes: int = 2,
    ) -> None:
        self.struck: list[Strike] = []
        self._specs, self._choose, self._reach = specs, choose, reach
        self._prefix, self._left = prefix, strikes
        self._each = {s.name: s.strikes for s in specs}
        self._inside: dict[object, list[str]] = {}
        self._needs_inside = {s.during for s in specs if s.during}
        for spec in specs:
            if spec.begin is not None:
                spec.begin()

    def before(self, point: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Strike in front of the real call."""
        if point in self._needs_inside:
            self._inside.setdefault(_me(), []).append(point)
        try:
            for spec, blow in self._chances(point, key, args, kwargs, after=False):
                answer = self._strike(spec, blow)
                if answer is not PROCEED:
                    raise Replace(answer)
        except BaseException:
            self._leave(point)
            raise

    def after(self, point: str, key: str, result: Any) -> Any:
        """Strike after the real call."""
        self._leave(point)
        for spec, blow in self._chances(point, key, (), {}, after=True):
            blow.result = result
            if spec.applies is None or spec.applies(blow):
                answer = self._strike(spec, blow)
                result = result if answer is PROCEED else answer
        return result

    def attach(self, connector: Any, replace: Callable[..., None]) -> None:
        """Attach the nemeses that have no point to a stage's connector."""
        for spec in self._specs:
            if spec.attach is not None:
                spec.attach(connector, lambda key, spec=spec: self._chance(spec, key), replace)  # type: ignore[misc]

    def _chances(
        self, point: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, after: bool
    ) -> Any:
        for spec in self._specs:
            if spec.point != point or spec.after is not after or not self._may(spec):
                continue
            if spec.during and spec.during not in self._inside.get(_me(), ()):
                continue
            blow = Blow(
                key=key.removeprefix(self._prefix),
                full_key=key,
                args=args,
                kwargs=kwargs,
            )
            if not after and spec.applies is not None and not spec.applies(blow):
                continue
            yield spec, blow

    def _strike(self, spec: NemesisSpec, blow: Blow) -> Any:
        if not self._chance(spec, blow.key):
            return PROCEED if not spec.after else blow.result
        assert spec.strike is not None
        return spec.strike(blow)

    def _may(self, spec: NemesisSpec) -> bool:
        return self._left > 0 and self._each[spec.name] > 0

    def _chance(self, spec: NemesisSpec, key: str) -> bool:
        """Ask the strategy whether to strike now; record it if so."""
        if not self._may(spec):
            return False
        if self._choose is not None and self._choose(ODDS, f"nemesis {spec.name}") != _HITS:
            return False
        self._left -= 1
        self._each[spec.name] -= 1
        key = key.removeprefix(self._prefix)
        self.struck.append(
            Strike(nemesis=spec.name, key=key, harm=spec.harm, leaves=spec.leaves, where=_where())
        )
        self._reach("fault", key, what=spec.name)
        return True

    def _leave(self, point: str) -> None:
        inside = self._inside.get(_me())
        if inside and point in self._needs_inside:
            inside.pop()


def _where() -> str:
    """Name of the nearest calling function of an adapter."""
    frame = sys._getframe(1)
    while frame is not None and "transfer_adapter" not in frame.f_code.co_filename:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_code.co_name if frame is not None else ""


def _me() -> object:
    return state.current or threading.get_ident()
