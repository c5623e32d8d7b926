"""Verdicts: held, violated, inconclusive, not applicable.

`judge` is the only function that may construct `Verdict.HELD` for a case, and it does so from
positive evidence only: every actor ended, every declared order was observed in the trace, every
declared point was reached, at least one check looked at something, nothing was cut off. A
repository test greps for other places that assign it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

__all__ = ["EXIT_CODES", "Evidence", "Finding", "Verdict", "combine", "exit_code", "judge"]


class Verdict(enum.StrEnum):
    """Outcome of one case or of a run."""

    HELD = "held"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not_applicable"


EXIT_CODES = {Verdict.HELD: 0, Verdict.VIOLATED: 1, Verdict.INCONCLUSIVE: 3, Verdict.NOT_APPLICABLE: 3}
"""Exit code of a run with that verdict; 2 usage, 4 target unusable, 5 nothing selected, 70 internal."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One broken contract.

    Attributes:
        invariant: id in the registry, for example ``"I51"``.
        message: what is wrong, one sentence.
        expected: what the contract says.
        found: what the run showed.
        key: the transfer key, request or container that it concerns; part of the identity.
        evidence: small JSON values that support it (names, counts, stacks).
    """

    invariant: str
    message: str
    expected: str = ""
    found: str = ""
    key: str = ""
    evidence: dict[str, object] = {}

    @property
    def identity(self) -> tuple[str, str]:
        """What stays equal while a failing schedule is minimised: the invariant and its key."""
        return self.invariant, self.key


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a run positively showed; `judge` turns it into a verdict.

    Attributes:
        actors: actors that were declared.
        finished: actors that ran to their end.
        orders: declared orders, as text ``"a < b"``.
        unobserved: declared orders that the trace does not show.
        unreached: points that the scenario requires and the trace lacks.
        checked: how many observations the checks looked at.
        cut: why the run was cut off; empty when it was not.
    """

    actors: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    checked: int = 0
    cut: str = ""

    def gaps(self) -> list[str]:
        """List what is missing for a positive verdict, in words; empty when nothing is."""
        missing = [a for a in self.actors if a not in self.finished]
        gaps = [self.cut] if self.cut else []
        if not self.actors:
            gaps.append("no actor was declared")
        if missing:
            gaps.append(f"actors that did not end: {', '.join(missing)}")
        gaps += [f"order not observed: {o}" for o in self.unobserved]
        gaps += [f"point not reached: {p}" for p in self.unreached]
        if not self.checked:
            gaps.append("no check had anything to look at")
        return gaps


def judge(findings: Sequence[Finding], evidence: Evidence) -> tuple[Verdict, str]:
    """Give the verdict of one case and its reason; the only place that constructs `held`."""
    if findings:
        return Verdict.VIOLATED, findings[0].message
    gaps = evidence.gaps()
    if gaps:
        return Verdict.INCONCLUSIVE, "; ".join(gaps)
    return Verdict.HELD, ""


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine case verdicts: violated > inconclusive > held; nothing executed is inconclusive."""
    seen = set(verdicts) - {Verdict.NOT_APPLICABLE}
    for verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        if verdict in seen:
            return verdict
    return Verdict.HELD if seen else Verdict.INCONCLUSIVE


def exit_code(verdict: Verdict, *, allow_inconclusive: bool = False) -> int:
    """Map a run's verdict to the exit code of the command."""
    if allow_inconclusive and verdict is Verdict.INCONCLUSIVE:
        return 0
    return EXIT_CODES[verdict]
