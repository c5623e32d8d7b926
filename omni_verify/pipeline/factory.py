"""Connectors by name, as deploy configurations ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from omni_verify.errors import UsageError, unknown_value
from omni_verify.pipeline.connector import OmniConnectorBase
from omni_verify.pipeline.shm_connector import SharedMemoryConnector

__all__ = ["ConnectorConstructor", "OmniConnectorFactory"]

ConnectorConstructor = Callable[[dict[str, Any]], OmniConnectorBase]


class OmniConnectorFactory:
    """The process-wide table of connector constructors; third parties add theirs at import."""

    _registry: ClassVar[dict[str, ConnectorConstructor]] = {"SharedMemoryConnector": SharedMemoryConnector}

    @classmethod
    def register_connector(cls, name: str, constructor: ConnectorConstructor) -> None:
        """Add a constructor that takes the ``extra`` mapping of a connector spec.

        Raises:
            UsageError: the name is taken.
        """
        if name in cls._registry:
            raise UsageError(f"connector {name!r} is already registered. Register under another name.")
        cls._registry[name] = constructor

    @classmethod
    def create_connector(cls, spec: Any) -> OmniConnectorBase:
        """Create the connector of a spec: an object or a mapping with ``name`` and ``extra``.

        Raises:
            UsageError: unknown name (the nearest is suggested), or the constructor refuses ``extra``.
        """
        if isinstance(spec, Mapping):
            name, extra = spec.get("name"), spec.get("extra")
        else:
            name, extra = getattr(spec, "name", None), getattr(spec, "extra", None)
        if name not in cls._registry:
            raise unknown_value("connector", name, cls._registry)
        try:
            return cls._registry[name](dict(extra or {}))
        except Exception as error:
            raise UsageError(f"connector {name!r} refused its configuration {extra!r}: {error}") from error

    @classmethod
    def list_registered_connectors(cls) -> list[str]:
        """Return the registered names in order of registration."""
        return list(cls._registry)
