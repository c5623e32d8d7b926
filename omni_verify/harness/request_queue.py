"""The waiting queue of a stage's scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

__all__ = ["RequestQueue"]


class RequestQueue(deque[Any]):
    """The waiting queue, with the three methods of vLLM's that adapters use."""

    def add_request(self, request: Any) -> None:
        """Append a request."""
        self.append(request)

    def prepend_request(self, request: Any) -> None:
        """Put a request in front."""
        self.appendleft(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Put requests in front, keeping their order."""
        self.extendleft(reversed(list(requests)))
