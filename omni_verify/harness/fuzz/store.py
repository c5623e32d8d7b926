"""The connector of another class that a fuzzed program may use."""

from __future__ import annotations

from typing import Any, ClassVar

from omni_verify.checks.observation import Broken
from omni_verify.harness.third_party import StoreConnector
from omni_verify.targets.protocol import Target

__all__ = ["OTHER", "fresh_store", "kept_in_store"]

OTHER = "FuzzedStore"
"""Its name in the target's factory."""
_registered: set[str] = set()


class _Store(StoreConnector):
    """It outlives the close of one end, so that what nobody reads shows."""

    shared: ClassVar[dict[str, bytes]] = {}

    def __init__(self, config: dict[str, Any], target: Target) -> None:
        super().__init__(config, target.serialize, target.deserialize)
        self.objects = _Store.shared

    def close(self) -> None:
        """Keep everything."""


def fresh_store(target: Target) -> dict[str, bytes]:
    """Let the stages use the connector, and return the objects that all its instances hold."""
    _Store.shared = {}
    if target.spec not in _registered:  # a factory takes a name once in a process
        target.register_connector(OTHER, lambda config: _Store(config, target))
        _registered.add(target.spec)
    return _Store.shared


def kept_in_store(keys: list[str]) -> Broken:
    """What is broken when the store keeps objects at rest."""
    return Broken(
        family=("I51",),
        message="a connector of another class keeps objects that nobody will read",
        expected="an empty store",
        found=", ".join(keys),
        key=keys[0],
    )
