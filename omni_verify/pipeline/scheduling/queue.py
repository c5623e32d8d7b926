"""The waiting queue of a scheduler: first come, first served, with the names that an adapter calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from omni_verify.pipeline.request import Request

__all__ = ["RequestQueue"]


class RequestQueue:
    """Requests in the order of their admission; used by the scheduler's thread only."""

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        self._items: deque[Request] = deque(requests)

    def add_request(self, request: Request) -> None:
        """Append one request."""
        self._items.append(request)

    def prepend_request(self, request: Request) -> None:
        """Put one request in front."""
        self._items.appendleft(request)

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        """Put several requests in front and keep their order."""
        self._items.extendleft(reversed(list(requests)))

    def peek_request(self) -> Request:
        """Return the first request."""
        return self._items[0]

    def pop_request(self) -> Request:
        """Take the first request."""
        return self._items.popleft()

    def remove_request(self, request: Request) -> None:
        """Remove this very request; a missing one is ignored."""
        self._items = deque(item for item in self._items if item is not request)

    remove = remove_request

    def remove_requests(self, requests: Iterable[Request]) -> None:
        """Remove these very requests."""
        gone = {id(request) for request in requests}
        self._items = deque(item for item in self._items if id(item) not in gone)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, request: object) -> bool:
        return any(item is request for item in self._items)
