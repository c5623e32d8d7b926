"""Key extractors: which transfer key or request a call is about.

They only read. A call whose key is None is not that point (for example an ``os.open`` of no lock file).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import Any

from omni_verify.contracts.keys import SHM_ROOT, build_key, key_of_lock_name

__all__ = [
    "argument",
    "cleanup_of",
    "external_id_of",
    "external_ids",
    "lock_of_flock",
    "lock_of_path",
    "mapped",
    "no_key",
    "poll_key",
    "request_of",
    "segment_name",
    "segment_of_descriptor",
    "segment_of_link",
    "segment_of_read",
    "segment_of_shm_open",
    "task_key",
]

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
KeyOf = Callable[[Args, Kwargs], "str | None"]


def no_key(args: Args, kwargs: Kwargs) -> str | None:
    """Return the empty key: the call is about no request in particular."""
    return ""


def argument(name: str, position: int) -> KeyOf:
    """Return an extractor that takes one argument, given by name or by position, as the key."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        value = kwargs[name] if name in kwargs else args[position] if len(args) > position else None
        return None if value is None else str(value)

    return key


def segment_of_read(args: Args, kwargs: Kwargs) -> str | None:
    """Return the segment of ``shm_read_bytes(meta)``."""
    meta = kwargs.get("meta", args[0] if args else None)
    return str(meta["name"]) if isinstance(meta, dict) and "name" in meta else None


def segment_name(args: Args, kwargs: Kwargs) -> str | None:
    """Return the segment whose POSIX name (with its leading slash) is the first argument."""
    name = args[0] if args else kwargs.get("name")
    return None if name is None else str(name).lstrip("/")


def segment_of_shm_open(*, creates: bool) -> KeyOf:
    """Return an extractor for ``shm_open(name, flags, ...)`` calls that create, or that only open."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        flags: int = kwargs["flags"] if "flags" in kwargs else args[1] if len(args) > 1 else 0
        name = kwargs.get("name", args[0] if args else None)
        if name is None or bool(flags & os.O_CREAT) is not creates:
            return None
        return str(name).lstrip("/")

    return key


def segment_of_descriptor(args: Args, kwargs: Kwargs) -> str | None:
    """Return the segment behind the descriptor that is the first argument; None for any other file."""
    name = _shm_name(_path_of(args[0] if args else None))
    return None if name is None or key_of_lock_name(name) is not None else name


def segment_of_link(args: Args, kwargs: Kwargs) -> str | None:
    """Return the segment that ``link(existing, path)`` gives a name; None for any other file."""
    return _shm_name(args[1] if len(args) > 1 else kwargs.get("dst"))


def lock_of_path(args: Args, kwargs: Kwargs) -> str | None:
    """Return the key of the lock file whose path is the first argument."""
    return _lock_key(args[0] if args else kwargs.get("path", kwargs.get("file")))


def lock_of_flock(*, unlocks: bool) -> KeyOf:
    """Return an extractor for ``flock(file, operation)`` on a lock file, for unlocking or for locking."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        operation = args[1] if len(args) > 1 else kwargs.get("operation", 0)
        if bool(operation & fcntl.LOCK_UN) is not unlocks:
            return None
        return _lock_key(_path_of(args[0]))

    return key


def _lock_key(path: Any) -> str | None:
    name = _shm_name(path)
    return None if name is None else key_of_lock_name(name)


def _shm_name(path: Any) -> str | None:
    """Return the name of a file that lies directly in the shared-memory directory."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or os.path.dirname(text) != SHM_ROOT:
        return None
    return os.path.basename(text)


def _path_of(file: Any) -> str | None:
    """Return the path behind a descriptor or an open file, as it was when it was opened."""
    try:
        number = file if isinstance(file, int) else file.fileno()
        return os.readlink(f"/proc/self/fd/{number}").removesuffix(" (deleted)")
    except (AttributeError, OSError, ValueError):
        return None


def external_id_of(adapter: Any, request_id: Any) -> str:
    """Return the external id that the adapter knows for an internal id, else the internal id."""
    return str(getattr(adapter, "request_ids_mapping", {}).get(request_id, request_id))


def mapped(adapter: Any) -> KeyOf:
    """Return an extractor for calls that take an internal id: its external id as the adapter knows it."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        return external_id_of(adapter, kwargs.get("request_id", args[0] if args else ""))

    return key


def cleanup_of(adapter: Any) -> KeyOf:
    """Return an extractor for ``cleanup(request_id, external_req_id=None)``."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        external = kwargs.get("external_req_id", args[1] if len(args) > 1 else None)
        internal = kwargs.get("request_id", args[0] if args else "")
        return external_id_of(adapter, internal) if external is None else str(external)

    return key


def request_of(position: int) -> KeyOf:
    """Return an extractor for calls that take a request, by the name ``request`` or at `position`."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        request = (
            kwargs["request"] if "request" in kwargs else args[position] if len(args) > position else None
        )
        return str(getattr(request, "external_req_id", "") or "")

    return key


def external_ids(adapter: Any) -> KeyOf:
    """Return an extractor for ``finish_requests(ids, status, requests)``: external ids joined by commas."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        ids = kwargs.get("request_ids", args[0] if args else None)
        requests = kwargs.get("requests", args[2] if len(args) > 2 else None) or {}
        wanted = [ids] if isinstance(ids, str) else list(requests if ids is None else ids)
        found = (
            getattr(requests.get(i), "external_req_id", None) or external_id_of(adapter, i) for i in wanted
        )
        return ",".join(sorted(str(i) for i in found))

    return key


def task_key(adapter: Any) -> KeyOf:
    """Return an extractor for ``_send_single_request(task)``: transfer key, or prefix of a reclaim."""

    def of(task: Any) -> str:
        if "batch" in task:
            return ",".join(of(item) for item in task["batch"])
        if "cleanup_shm" in task:
            return str(task["cleanup_shm"][0])
        if "release_shm" in task:
            return str(task["release_shm"])
        ext = getattr(task.get("request"), "external_req_id", "")
        chunk = getattr(adapter, "put_req_chunk", {}).get(ext, 0)
        return build_key(str(ext), adapter.connector.stage_id, chunk)

    def key(args: Args, kwargs: Kwargs) -> str | None:
        task = kwargs.get("task", args[0] if args else None)
        return of(task) if isinstance(task, dict) else ""

    return key


def poll_key(adapter: Any) -> KeyOf:
    """Return an extractor for calls on a registered entry: the transfer key that is polled next."""

    def key(args: Args, kwargs: Kwargs) -> str | None:
        if "connector_get_key" in kwargs:
            return str(kwargs["connector_get_key"])
        entry = args[0] if args else next(iter(kwargs.values()), None)
        internal = getattr(entry, "request_id", None)
        ext = getattr(entry, "external_req_id", None) or external_id_of(adapter, internal)
        chunk = getattr(adapter, "get_req_chunk", {}).get(internal, 0)
        return build_key(str(ext), adapter.connector.stage_id - 1, chunk)

    return key
