"""Lengths of time on the command line."""

from __future__ import annotations

import re

from omni_verify.errors import UsageError

__all__ = ["seconds_of"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def seconds_of(text: str, option: str) -> float:
    """Read a duration such as ``500ms``, ``30s``, ``5m`` or ``1.5h``; a bare number is seconds.

    Args:
        text: what was given.
        option: to which option, for the error.

    Raises:
        UsageError: no duration, or not a positive one.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip())
    value = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < value < 1e9:
        raise UsageError(
            f"{option}: {text!r} is not a duration. Expected a positive number and a unit, such as 30s or 5m."
        )
    return value
