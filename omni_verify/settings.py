"""Named bounds of the harness, each with its default, its unit and its environment variable.

`OMNI_VERIFY_<NAME>` overrides a bound. Every bound protects against a hang: reaching one gives a
verdict of inconclusive (or violated where a scenario says what a blocked actor means), never held.
"""

from __future__ import annotations

import os

import msgspec

from omni_verify.errors import UsageError

__all__ = ["Settings", "load"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a run.

    Attributes:
        gate_s: seconds an actor waits at a gate for its predecessors (OMNI_VERIFY_GATE_S).
        wait_s: seconds a scenario waits for a condition of the target (OMNI_VERIFY_WAIT_S).
        case_s: seconds one case may take before it is ended from outside (OMNI_VERIFY_CASE_S).
        load_s: seconds a target may take to load (OMNI_VERIFY_LOAD_S).
        fetch_s: seconds pip may take to fetch a release (OMNI_VERIFY_FETCH_S).
    """

    gate_s: float = 20.0
    wait_s: float = 20.0
    case_s: float = 120.0
    load_s: float = 180.0
    fetch_s: float = 600.0


def load(environ: dict[str, str] | None = None) -> Settings:
    """Read the bounds from the environment.

    Raises:
        UsageError: a variable is not a positive number.
    """
    env = dict(os.environ) if environ is None else environ
    values: dict[str, float] = {}
    for field in Settings.__struct_fields__:
        name = f"OMNI_VERIFY_{field.upper()}"
        if name not in env:
            continue
        try:
            value = float(env[name])
        except ValueError:
            value = -1.0
        if not 0 < value < 1e9:
            raise UsageError(f"{name} must be a positive number of seconds, got {env[name]!r}.")
        values[field] = value
    return Settings(**values)
