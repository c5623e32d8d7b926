"""Tokens of fuzzed runs: the program's operations together with the schedule."""

from __future__ import annotations

from omni_verify.engine import token as tokens
from omni_verify.engine.schedule import Schedule
from omni_verify.errors import UsageError
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.workload import PREFIX

__all__ = ["VERSION", "join", "split", "wrap"]

VERSION = "ovf1"


def join(program: Program, schedule: Schedule) -> str:
    """Write ``ovf1.<program>.<fingerprint>.<choices>``."""
    return f"{VERSION}.{program.encode()}.{tokens.encode(schedule).partition('.')[2]}"


def wrap(name: str, token: str) -> str:
    """Put the program of that name, if it is a fuzzed one, into the token of one of its schedules."""
    if not name.startswith(PREFIX):
        return token
    return f"{VERSION}.{name.removeprefix(PREFIX)}.{token.partition('.')[2]}"


def split(token: str) -> tuple[str, str]:
    """Return the name of the fuzzed program and its schedule token; a plain token has an empty name.

    Raises:
        UsageError: it is damaged.
    """
    if not token.startswith(f"{VERSION}."):
        return "", token
    parts = token.split(".")
    if len(parts) != 4:
        raise UsageError(
            f"not a token of a fuzzed run: {token[:40]!r}. "
            f"Expected {VERSION}.<program>.<fingerprint>.<choices>."
        )
    Program.decode(parts[1])
    return f"{PREFIX}{parts[1]}", f"{tokens.VERSION}.{parts[2]}.{parts[3]}"
