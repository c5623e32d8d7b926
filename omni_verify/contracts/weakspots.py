"""The registry of weak spots: where released code breaks an invariant, and how the reference avoids it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from omni_verify.contracts.catalogue import weak_spots
from omni_verify.contracts.entry import WeakSpot

__all__ = ["WEAK_SPOTS", "WeakSpot", "all"]

WEAK_SPOTS: Mapping[str, WeakSpot] = MappingProxyType({entry.id: entry for entry in weak_spots.WEAK_SPOTS})
"""Every weak spot by id, in numeric order."""


def all() -> tuple[WeakSpot, ...]:  # noqa: A001  read as weakspots.all()
    """Return every weak spot in numeric order."""
    return tuple(WEAK_SPOTS.values())
