"""The registry of invariants: what must hold, by id.

An id never changes its meaning, and a statement that splits gets a letter (``I27b``). Scenarios, checks and
findings name these ids only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from omni_verify.contracts.catalogue import configuration, connector, output, payload, receiver, sender
from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS", "Invariant", "Scope", "all"]


def _order(entry: Invariant) -> tuple[int, str]:
    match = re.fullmatch(r"I(\d+)([a-z]?)", entry.id)
    if match is None:
        raise ValueError(f"invariant id {entry.id!r}: expected I, a number and at most one letter")
    return int(match[1]), match[2]


def _collect() -> Mapping[str, Invariant]:
    rooms = (configuration, payload, connector, sender, receiver, output)
    entries = sorted((entry for room in rooms for entry in room.INVARIANTS), key=_order)
    table = {entry.id: entry for entry in entries}
    if len(table) != len(entries):
        raise ValueError("an invariant id is used twice")
    return MappingProxyType(table)


INVARIANTS: Mapping[str, Invariant] = _collect()
"""Every invariant by id, in numeric order."""


def all() -> tuple[Invariant, ...]:  # noqa: A001  read as invariants.all()
    """Return every invariant in numeric order."""
    return tuple(INVARIANTS.values())
