"""A schedule: the choices of one execution together with the settings that give them their meaning."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

__all__ = ["NamedStep", "Schedule", "fingerprint"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What must be the same to get the same run again.

    Attributes:
        program: fingerprint of the program's name (32 bits), see `fingerprint`.
        granularity: ``connector``, ``sync`` or ``access``.
        early_timers, max_steps: the scheduler's bounds.
        tape: the choices; the current task continues after its end.
        arity: number of options at each choice that is not 0, in order; the evidence of a divergence.
            Empty when it is not known.
        failure: fingerprint of the failure's identity, 0 when the run did not fail.
        spurious_wakeups: one more of the scheduler's bounds.
    """

    program: int
    granularity: str
    early_timers: int
    max_steps: int
    tape: tuple[int, ...]
    arity: tuple[int, ...] = ()
    failure: int = 0
    spurious_wakeups: int = 0

    @property
    def deviations(self) -> int:
        """Choices other than "continue the current task"."""
        return len(self.tape) - self.tape.count(0)


def fingerprint(text: str) -> int:
    """32-bit digest of a program name or a failure identity.

    The *name* is used and not the source, because a token must still apply to the program after its
    bug was fixed; whether the fixed program still follows the choices is found out by replaying.
    """
    return zlib.crc32(text.encode()) if text else 0


@dataclass(frozen=True, slots=True)
class NamedStep:
    """One deviation, by names instead of positions, so that it survives refactoring.

    "When ``actor`` is about to perform ``point`` for the ``occurrence``-th time at a decision, ``to`` goes
    on." For a data choice ``point`` is its name and ``to`` the value in decimal.
    """

    actor: str
    point: str
    occurrence: int
    to: str
