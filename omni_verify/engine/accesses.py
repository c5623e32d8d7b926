"""What a rewritten access calls: publish the operation, wait to be chosen, perform it.

The names are injected into the rewritten module, so they are short, reserved and end in ``__``: a name
with two trailing underscores is never mangled inside a class.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from omni_verify.engine.control import state

__all__ = ["CONTAINERS", "INJECTED"]

# Types whose methods, items and length are shared state. Subclasses publish their own operations.
CONTAINERS = frozenset({list, dict, set, bytearray, deque, OrderedDict, defaultdict})

# Methods that only read; the others of the rewritten set count as writes.
_READERS = frozenset({"get", "keys", "values", "items", "index", "count", "copy"})


def load(obj: Any, name: str, site: int) -> Any:
    t = state.current
    if t is not None:
        t.kind = "load"
        t.obj = obj
        t.key = name
        t.site = site
        t.sched.access(t)
    return getattr(obj, name)


def store(value: Any, obj: Any, name: str, site: int) -> None:
    t = state.current
    if t is not None:
        t.kind = "store"
        t.obj = obj
        t.key = name
        t.site = site
        t.sched.access(t)
    setattr(obj, name, value)


def delete(obj: Any, name: str, site: int) -> None:
    _publish("store", obj, name, site)
    delattr(obj, name)


def load_item(obj: Any, index: Any, site: int) -> Any:
    if type(obj) in CONTAINERS:
        _publish("item", obj, None, site)
    return obj[index]


def store_item(value: Any, obj: Any, index: Any, site: int) -> None:
    if type(obj) in CONTAINERS:
        _publish("setitem", obj, None, site)
    obj[index] = value


def delete_item(obj: Any, index: Any, site: int) -> None:
    if type(obj) in CONTAINERS:
        _publish("delitem", obj, None, site)
    del obj[index]


def contains(item: Any, obj: Any, site: int) -> bool:
    if type(obj) in CONTAINERS:
        _publish("in", obj, None, site)
    return item in obj


def read(obj: Any, site: int) -> Any:
    """Argument of ``len``, ``list``, ``sorted`` and the like: reading it is one access."""
    if type(obj) in CONTAINERS:
        _publish("read", obj, None, site)
    return obj


def iterate(obj: Any, site: int) -> Any:
    """Iterable of a ``for``: every step is an access; another task may change the container in between."""
    if type(obj) in CONTAINERS and state.current is not None:
        return _steps(obj, site)
    return obj


def _steps(obj: Any, site: int) -> Iterator[Any]:
    iterator = iter(obj)
    while True:
        _publish("iter", obj, None, site)
        try:
            value = next(iterator)
        except StopIteration:
            return
        yield value


def call(obj: Any, name: str, site: int, /, *args: Any, **kwargs: Any) -> Any:
    """Call of a method that a container may have."""
    t = state.current
    if t is not None and type(obj) in CONTAINERS:
        t.kind = "read" if name in _READERS else name
        t.obj = obj
        t.key = None
        t.site = site
        t.sched.access(t)
    return getattr(obj, name)(*args, **kwargs)


def variable(name: str, site: int) -> None:
    """A global or closed-over variable is about to be read."""
    _publish("load", None, name, site)


def assign(value: Any, name: str, site: int) -> Any:
    """A global or closed-over variable is about to be written."""
    _publish("store", None, name, site)
    return value


def _publish(kind: str, obj: Any, key: Any, site: int) -> None:
    t = state.current
    if t is not None:
        t.kind = kind
        t.obj = obj
        t.key = key
        t.site = site
        t.sched.access(t)


INJECTED: dict[str, Any] = {
    "__ov_load__": load,
    "__ov_store__": store,
    "__ov_delete__": delete,
    "__ov_load_item__": load_item,
    "__ov_store_item__": store_item,
    "__ov_delete_item__": delete_item,
    "__ov_contains__": contains,
    "__ov_read__": read,
    "__ov_iterate__": iterate,
    "__ov_call__": call,
    "__ov_variable__": variable,
    "__ov_assign__": assign,
    "__ov_slice__": slice,
}
