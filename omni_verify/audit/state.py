"""What an adapter and a connector still remember about given requests: a walk over their attributes.

The walk needs no list of attributes, so it sees a container that a release adds tomorrow (article section 9,
I39). It only reads; a container that another thread changes meanwhile is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from omni_verify.contracts.keys import parse_key
from omni_verify.errors import UsageError

__all__ = ["StateEntry", "container_sizes", "find_entries", "find_prefixed"]

_CONTAINERS = (dict, set, frozenset, deque, list, tuple)
_ID_ATTRIBUTES = ("request_id", "external_req_id")
_DEPTH = 3
_READS = 16


class StateEntry(msgspec.Struct, frozen=True, order=True):
    """One remembered item: path of the container (``adapter.put_req_chunk``), the id, and the item's key."""

    container: str
    request: str
    item: str


def find_entries(
    roots: Mapping[str, Any], ids: Iterable[str], *, known: Iterable[str] = ()
) -> list[StateEntry]:
    """Return every entry of every container below `roots` that is about one of the ids, sorted.

    An entry is about an id when its key, a string in it, or an attribute ``request_id`` or
    ``external_req_id`` of it (or of a member, three levels deep) is the id or a transfer key of it.

    Args:
        roots: name to object, for example ``{"adapter": a, "connector": a.connector}``.
        ids: internal and external ids that are looked for.
        known: all other ids of the run: the id ``task_1_2`` is then not taken for a key of ``task``.
    """
    wanted = frozenset(ids)
    universe = wanted.union(known)
    found = set()
    for path, container in _containers(roots):
        for label, item in _items(container):
            for text in _strings(item, _DEPTH):
                request = _request_of(text, universe)
                if request in wanted:
                    found.add(StateEntry(path, request, label))
    return sorted(found)


def find_prefixed(roots: Mapping[str, Any], prefix: str) -> list[StateEntry]:
    """Return every entry that names something with the prefix of a run, sorted; the bare prefix is no name.

    For long runs, whose ids are too many to keep: whatever an id of the run was, its prefix tells it.
    """
    found = []
    for path, container in _containers(roots):
        for label, item in _items(container):
            text = next((t for t in _strings(item, _DEPTH) if prefix in t and t != prefix), None)
            if text is not None:
                found.append(StateEntry(path, text, label))
    return sorted(found)


def container_sizes(roots: Mapping[str, Any]) -> dict[str, int]:
    """Return the length of every container below `roots` by path, for growth checks (I39)."""
    return {path: len(container) for path, container in _containers(roots)}


def _containers(roots: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the containers among the attributes of the roots and of their own helper objects."""
    seen = {id(root) for root in roots.values()}
    stack = [(name, root, _package(root)) for name, root in roots.items()]
    while stack:
        path, owner, package = stack.pop()
        for name, value in _attributes(owner):
            if isinstance(value, _CONTAINERS):
                if not isinstance(value, tuple | frozenset):
                    yield f"{path}.{name}", value
            elif id(value) not in seen and _package(value) == package:
                seen.add(id(value))  # a helper of the same package: its containers count as the owner's
                stack.append((f"{path}.{name}", value, package))


def _package(value: Any) -> str:
    """First two parts of the value's module: a project may hold a harness beside its target."""
    return ".".join(type(value).__module__.split(".")[:2])


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    slots = [s for c in type(owner).__mro__ for s in _slots(c) if hasattr(owner, s)]
    return [*list(getattr(owner, "__dict__", {}).items()), *((s, getattr(owner, s)) for s in slots)]


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(n for n in names if n not in ("__dict__", "__weakref__") and not n.startswith("__"))


def _items(container: Any) -> list[tuple[str, Any]]:
    """Copy the entries as (label, entry); a concurrent change makes the copy fail, so try again.

    Raises:
        RuntimeError: the container changed during every one of the reads.
    """
    for attempt in range(_READS):
        try:
            if isinstance(container, dict):
                return [(str(key), (key, value)) for key, value in list(container.items())]
            return [(_label(item), item) for item in list(container)]
        except RuntimeError:
            if attempt == _READS - 1:
                raise
    raise AssertionError("unreachable")


def _label(item: Any) -> str:
    return item if isinstance(item, str) else str(getattr(item, "request_id", type(item).__name__))


def _strings(item: Any, depth: int) -> Iterator[str]:
    """Yield the strings by which an entry can name a request."""
    if isinstance(item, str):
        yield item
        return
    for name in _ID_ATTRIBUTES:
        value = getattr(item, name, None)
        if isinstance(value, str):
            yield value
    if depth and isinstance(item, dict):
        for pair in list(item.items()):
            yield from _strings(pair, depth - 1)
    elif depth and isinstance(item, _CONTAINERS):
        for member in list(item):
            yield from _strings(member, depth - 1)


def _request_of(text: str, universe: frozenset[str]) -> str:
    """Return the id that the text names: itself, or the id of a chunk key or of a stage's key prefix."""
    if text in universe:
        return text
    for candidate in (text, f"{text.removesuffix('_')}_0"):
        try:
            external = parse_key(candidate).external_id
        except UsageError:
            continue
        if external in universe:
            return external
    return ""
