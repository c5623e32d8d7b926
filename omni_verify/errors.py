"""Errors that a user can cause, worded so that the user can act on them.

Every message says what happened, what was expected, what was got and the likely fix; closed sets
list their members and suggest the nearest one. The front ends map the classes to exit codes
(`docs/reference/exit-codes.md`) and print the text without a traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = ["OmniVerifyError", "TargetUnusableError", "UsageError", "unknown_value"]


class OmniVerifyError(Exception):
    """Base of every error that a front end prints as one message instead of a traceback."""

    exit_code = 70


class UsageError(OmniVerifyError):
    """An option, a name or a configuration value is wrong (exit code 2)."""

    exit_code = 2


class TargetUnusableError(OmniVerifyError):
    """The target or the environment cannot run at all (exit code 4)."""

    exit_code = 4


def unknown_value(kind: str, got: object, valid: Iterable[str], *, hint: str = "") -> UsageError:
    """Build the error for a value outside a closed set, with the nearest valid value.

    Args:
        kind: what the value names, for example ``"scenario"``.
        got: the value that was given.
        valid: every valid value; up to 12 are listed.
        hint: one more sentence, for example the command that lists all values.
    """
    names = sorted(set(valid))
    near = _nearest(str(got), names)
    shown = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    guess = f" Did you mean {near!r}?" if near else ""
    return UsageError(f"unknown {kind} {got!r}.{guess} Valid: {shown or 'none'}.{' ' + hint if hint else ''}")


_CUTOFF = 0.4


def _nearest(got: str, names: list[str]) -> str:
    """Return the most similar name, also one of the same words in another order; empty when none is near."""
    scores = {
        name: max(_similarity(got, name), _similarity(_in_order(got), _in_order(name))) for name in names
    }
    best = max(scores, key=lambda name: scores[name], default="")
    return best if best and scores[best] >= _CUTOFF else ""


def _similarity(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, b, a).ratio()


def _in_order(name: str) -> str:
    return "-".join(sorted(re.split(r"[^a-z0-9]+", name.lower())))
