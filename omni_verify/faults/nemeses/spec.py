"""What a nemesis is: one kind of failure of the outside world, and what it may do to a stream."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import Any

import msgspec

from omni_verify.contracts.keys import file_name, lock_path, segment_path

__all__ = ["PROCEED", "Blow", "Harm", "NemesisSpec", "has_segment"]

PROCEED: Any = object()
"""Returned by a strike in front of a call: the real call still happens."""


class Harm(enum.StrEnum):
    """What a system that keeps the contracts may let its consumer see of a strike."""

    NONE = "none"
    """Nothing: the stream arrives whole."""
    STREAM = "stream"
    """The stream may end with an error; a loss is never silent (I36)."""
    SILENT = "silent"
    """Nobody inside can know: the consumer may also wait until its deadline (I46)."""


class Blow(msgspec.Struct, kw_only=True):
    """One chance of a nemesis to strike.

    Attributes:
        key: key of the operation without the run's prefix; a transfer key, an external id, or empty.
        full_key: the same with the prefix.
        args, kwargs: of the call.
        result: of the real call, when the strike comes after it.
    """

    key: str
    full_key: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None

    @property
    def segment(self) -> str:
        """Path of the segment of the key."""
        return str(segment_path(file_name(self.full_key)))

    @property
    def lock(self) -> str:
        """Path of the lock file of the key."""
        return str(lock_path(file_name(self.full_key)))


class NemesisSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One nemesis.

    Attributes:
        name: how a user names it.
        story: what goes wrong.
        source: public report or article section that shows that it happens.
        point: operation that it strikes at (``put``); empty when it has no point.
        after: it strikes after the real call, else in front of it.
        strike: raises the fault, or returns the result to give; `PROCEED` lets the real call go on.
        applies: whether there is anything to strike at; not asked of the strategy otherwise.
        harm: what the struck stream may show.
        strikes: at most so often in one run.
        during: only inside this operation of the same actor.
        leaves: it makes objects of the key outlive their stream, through no fault of the target.
        needs: capability without which it cannot strike.
        attach: for nemeses without a point: called as ``attach(connector, chance, replace)`` for each
            stage, see `omni_verify.faults.nemeses.roaming`.
        begin: called before each run, to take back what a strike changed.
        signal: what a whole process gets, 0 for none. Only a scripted scenario with processes can use it,
            with ``peer.kill(spec.signal)``.
    """

    name: str
    story: str
    source: str
    point: str = ""
    after: bool = False
    strike: Callable[[Blow], Any] | None = None
    applies: Callable[[Blow], bool] | None = None
    harm: Harm = Harm.STREAM
    strikes: int = 1
    during: str = ""
    leaves: bool = False
    needs: str = ""
    attach: Callable[[Any, Callable[[str], bool], Callable[..., None]], None] | None = None
    begin: Callable[[], None] | None = None
    signal: int = 0

    @property
    def processes(self) -> bool:
        """Whether it strikes a whole process."""
        return self.signal != 0


def has_segment(blow: Blow) -> bool:
    """Tell whether the key has a segment with bytes in it now."""
    try:
        return os.stat(blow.segment).st_size > 0
    except (OSError, ValueError):
        return False
