"""A scenario under nemeses as one program of the explorer: its name, and its form in tokens.

The name is ``family/name+nemesis,nemesis``; the token names the nemeses too, because whether one strikes is a
choice on the tape: ``ovn1.<nemeses>.<fingerprint>.<choices>``.
"""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine import token as tokens
from omni_verify.errors import UsageError
from omni_verify.faults.nemeses import choose

__all__ = ["VERSION", "join", "name", "parts", "split"]

VERSION = "ovn1"


def name(scenario_id: str, nemeses: Sequence[str]) -> str:
    """Name of a scenario's program; without nemeses the scenario's own id."""
    return f"{scenario_id}+{','.join(nemeses)}" if nemeses else scenario_id


def parts(program: str) -> tuple[str, tuple[str, ...]]:
    """Scenario id and nemeses of a name."""
    scenario_id, _, nemeses = program.partition("+")
    return scenario_id, tuple(nemeses.split(",")) if nemeses else ()


def join(program: str, token: str) -> str:
    """Put the nemeses of a program, if it has any, into the token of one of its schedules."""
    _, nemeses = parts(program)
    return f"{VERSION}.{'+'.join(nemeses)}.{token.partition('.')[2]}" if nemeses else token


def split(token: str) -> tuple[tuple[str, ...], str]:
    """Return the nemeses of a token and its schedule token.

    Raises:
        UsageError: it is damaged, or names an unknown nemesis.
    """
    if not token.startswith(f"{VERSION}."):
        return (), token
    pieces = token.split(".")
    if len(pieces) != 4:
        raise UsageError(
            f"not a token of a run with nemeses: {token[:40]!r}. "
            f"Expected {VERSION}.<nemeses>.<fingerprint>.<choices>."
        )
    nemeses = tuple(pieces[1].split("+"))
    choose(nemeses)
    return nemeses, f"{tokens.VERSION}.{pieces[2]}.{pieces[3]}"
