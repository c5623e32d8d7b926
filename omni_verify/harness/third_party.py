"""A connector of another make: an in-process store with the connector's contract and its own class.

Scenarios use it where the *class* of the connector must not matter (W17). It is exact, thread-safe
and consumes on get; payloads go through the target's own serializer, so that the receiver sees what
the wire would give.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["StoreConnector"]


class StoreConnector:
    """In-process key-value connector."""

    supports_raw_data = False

    def __init__(
        self, config: dict[str, Any], serialize: Callable[[Any], bytes], deserialize: Callable[[bytes], Any]
    ) -> None:
        self.config = config
        self.stage_id = config.get("stage_id", -1)
        self.objects: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._serialize, self._deserialize = serialize, deserialize

    def put(
        self, from_stage: str, to_stage: str, put_key: str, data: Any
    ) -> tuple[bool, int, dict[str, Any] | None]:
        """Store one object; the later value of a key wins."""
        raw = self._serialize(data)
        with self._lock:
            self.objects[put_key] = raw
        return True, len(raw), {"size": len(raw)}

    def get(
        self, from_stage: str, to_stage: str, get_key: str, metadata: Any = None
    ) -> tuple[Any, int] | None:
        """Take one object out, None when it is not there."""
        with self._lock:
            raw = self.objects.pop(get_key, None)
        return None if raw is None else (self._deserialize(raw), len(raw))

    def cleanup(self, request_id: str) -> bool:
        """Remove exactly one key."""
        with self._lock:
            return self.objects.pop(request_id, None) is not None

    def reap_consumed(self) -> None:
        """Keep no books about consumed keys: nothing to do."""

    def abandon_get(self, get_key: str) -> None:
        """Hold no claims: nothing to do."""

    def health(self) -> dict[str, Any]:
        """Return the number of stored objects."""
        return {"status": "healthy", "objects": len(self.objects)}

    def close(self) -> None:
        """Drop everything."""
        with self._lock:
            self.objects.clear()
