"""Source positions of access points. Index 0 means "not an access point"."""

from __future__ import annotations

__all__ = ["SITES", "site"]

SITES: list[str] = [""]
_known: dict[str, int] = {}


def site(position: str) -> int:
    """Number ``position`` (``file.py:12``); the number is for this process only."""
    if position not in _known:
        _known[position] = len(SITES)
        SITES.append(position)
    return _known[position]
