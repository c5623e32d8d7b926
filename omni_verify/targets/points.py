"""Where a target's named points lie: data for instrumentation, found by looking at the target.

Nothing here assumes one release: a row applies to every module or object that has the name. What no row
finds is told by `missing_operations`; an order over such a point is never observed, which is inconclusive.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Literal

import msgspec

from omni_verify.engine.instrument import DetailOf, KeyOf, Patcher
from omni_verify.targets import point_keys as keys
from omni_verify.targets.name_use import names_used
from omni_verify.targets.protocol import Target

__all__ = [
    "ADAPTER_OPERATIONS",
    "CONNECTOR_OPERATIONS",
    "MODULE_OPERATIONS",
    "Site",
    "adapter_points",
    "connector_points",
    "install",
    "missing_operations",
    "module_points",
]

Kind = Literal["wrap", "shim", "builtin", "moment"]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a point is reached.

    Attributes:
        owner: the module whose namespace, or the object whose attribute, is replaced.
        path: ``attr``, or ``name.attr`` for an attribute of a name in a module.
        point: operation (``put``) or single moment (``idle.save``).
        key: extractor of the key; two sites may share a path, each takes the calls for which it has a key.
        detail: extractor of small values from the result, or None.
        kind: ``wrap`` (an attribute), ``shim`` (an attribute of a module's name), ``builtin`` (a builtin that
            the module shadows), ``moment`` (reached once, before the call).
    """

    owner: Any
    path: str
    point: str
    key: KeyOf
    detail: DetailOf | None = None
    kind: Kind = "wrap"


class _Row(msgspec.Struct, frozen=True):
    """A site before it is bound to an owner; `roles` are the module roles it is searched in."""

    path: str
    point: str
    key: KeyOf
    roles: tuple[str, ...] = ()


_FILES = ("connector", "segments")
_MODULE_ROWS = (
    _Row("shm_write_bytes", "seg.write", keys.argument("name", 1), ("connector",)),
    _Row("shm_read_bytes", "seg.read", keys.segment_of_read, ("connector",)),
    _Row("_posixshmem.shm_open", "seg.create", keys.segment_of_shm_open(creates=True), ("stdlib_shm",)),
    _Row("_posixshmem.shm_open", "seg.open", keys.segment_of_shm_open(creates=False), ("stdlib_shm",)),
    _Row("_posixshmem.shm_unlink", "seg.unlink", keys.segment_name, ("stdlib_shm",)),
    _Row("posix_ipc.SharedMemory", "seg.create", keys.segment_of_shm_open(creates=True), _FILES),
    _Row("posix_ipc.SharedMemory", "seg.open", keys.segment_of_shm_open(creates=False), _FILES),
    _Row("os.link", "seg.create", keys.segment_of_link, ("segments",)),
    _Row("posix_ipc.unlink_shared_memory", "seg.unlink", keys.segment_name, _FILES),
    _Row("os.ftruncate", "seg.size", keys.segment_of_descriptor, ("segments", "stdlib_shm")),
    _Row("os.write", "seg.fill", keys.segment_of_descriptor, ("segments",)),
    _Row("open", "lock.open", keys.lock_of_path, _FILES),
    _Row("os.open", "lock.open", keys.lock_of_path, _FILES),
    _Row("fcntl.flock", "lock.flock", keys.lock_of_flock(unlocks=False), _FILES),
    _Row("fcntl.flock", "lock.unlock", keys.lock_of_flock(unlocks=True), _FILES),
    _Row("os.remove", "lock.remove", keys.lock_of_path, _FILES),
    _Row("os.unlink", "lock.remove", keys.lock_of_path, _FILES),
)
_CONNECTOR_ROWS = (
    _Row("put", "put", keys.argument("put_key", 2)),
    _Row("get", "get", keys.argument("get_key", 2)),
    _Row("cleanup", "cleanup", keys.argument("request_id", 0)),
    _Row("cleanup_prefix", "cleanup_prefix", keys.argument("key_prefix", 0)),
    _Row("reap_consumed", "reap", keys.no_key),
    _Row("close", "close", keys.no_key),
    _Row("serialize_obj", "ser", keys.no_key),
    _Row("deserialize_obj", "deser", keys.no_key),
)
MODULE_OPERATIONS = tuple(sorted({row.point for row in _MODULE_ROWS}))
"""Operations that lie in modules; a connector without POSIX shared memory has none of them."""
CONNECTOR_OPERATIONS = tuple(row.point for row in _CONNECTOR_ROWS)
"""Operations of the connector object."""
ADAPTER_OPERATIONS = (
    "save",
    "load",
    "abort",
    "cleanup_all",
    "cleanup_receiver",
    "cleanup_sender",
    "release",
    "send",
    "poll",
    "commit",
    "proc",
    "shutdown",
    "idle.save",
    "idle.recv",
)
"""Operations and moments of the adapter object."""


def module_points(target: Target) -> list[Site]:
    """Return the sites in the target's modules; needs a loaded target."""
    return [
        site
        for role, modules in target.modules().items()
        for module in modules
        for row in _MODULE_ROWS
        if role in row.roles and (site := _bind_module(row, module)) is not None
    ]


def connector_points(target: Target, connector: Any) -> list[Site]:
    """Return the sites on one connector object."""
    return [
        Site(owner=connector, path=row.path, point=row.point, key=row.key, detail=_DETAILS.get(row.point))
        for row in _CONNECTOR_ROWS
        if callable(getattr(connector, row.path, None))
    ]


def adapter_points(target: Target, adapter: Any) -> list[Site]:
    """Return the sites on one adapter object; set its processor first, ``proc`` wraps the present one."""
    rows = (
        _Row("save_async", "save", keys.request_of(1)),
        _Row("load_async", "load", keys.request_of(0)),
        _Row("finish_requests", "abort", keys.external_ids(adapter)),
        _Row("cleanup", "cleanup_all", keys.cleanup_of(adapter)),
        _Row("cleanup_receiver", "cleanup_receiver", keys.mapped(adapter)),
        _Row("cleanup_sender", "cleanup_sender", keys.argument("external_req_id", 0)),
        _Row("release_shm_resources", "release", keys.mapped(adapter)),
        _Row("_send_single_request", "send", keys.task_key(adapter)),
        _Row("_poll_single_request", "poll", keys.poll_key(adapter)),
        _Row("_commit_received_chunk", "commit", keys.poll_key(adapter)),
        _Row("custom_process_next_stage_input_func", "proc", keys.request_of(2)),
        _Row("shutdown", "shutdown", keys.no_key),
    )
    found = [
        Site(owner=adapter, path=row.path, point=row.point, key=row.key)
        for row in rows
        if callable(getattr(adapter, row.path, None))
    ]
    moments = (
        (getattr(adapter, "_save_cond", None), "wait", "idle.save"),
        (getattr(adapter, "_recv_cond", None), "wait", "idle.recv"),
        (getattr(adapter, "connector", None), "wait_for_change", "idle.recv"),
    )
    found += [
        Site(owner=owner, path=attr, point=point, key=keys.no_key, kind="moment")
        for owner, attr, point in moments
        if callable(getattr(owner, attr, None))
    ]
    return found


def missing_operations(found: Iterable[Site], expected: Sequence[str]) -> tuple[str, ...]:
    """Return the expected operations that no site reaches, for example ``commit`` in release 0.26.0."""
    reached = {site.point for site in found}
    return tuple(name for name in expected if name not in reached)


def install(patcher: Patcher, sites: Iterable[Site]) -> None:
    """Instrument every site; `Patcher.undo` takes all of them back."""
    for site in sites:
        if site.kind == "moment":
            patcher.moment(site.owner, site.path, site.point)
        elif site.kind == "shim":
            name, _, attr = site.path.partition(".")
            patcher.shim(site.owner, name, {attr: (site.point, site.key)})
        elif site.kind == "builtin":
            real = vars(site.owner).get(site.path, getattr(builtins, site.path))
            around = patcher.around(real, site.point, site.key, site.detail)
            patcher.replace(site.owner, site.path, around)
        else:
            patcher.wrap(site.owner, site.path, site.point, site.key, site.detail)


def _bind_module(row: _Row, module: ModuleType) -> Site | None:
    """Bind a row to a module whose own code uses that name; None otherwise."""
    if row.path not in names_used(module):
        return None
    name, _, attr = row.path.partition(".")
    kind: Kind = "shim" if attr else "wrap" if name in vars(module) else "builtin"
    found = (
        getattr(vars(module).get(name), attr, None)
        if attr
        else getattr(builtins, name, vars(module).get(name))
    )
    if found is None:
        return None
    return Site(owner=module, path=row.path, point=row.point, key=row.key, kind=kind)


def _put_detail(result: Any) -> dict[str, object]:
    return {"ok": bool(result[0]), "size": result[1]} if isinstance(result, tuple) else {}


def _get_detail(result: Any) -> dict[str, object]:
    return {"found": result is not None}


_DETAILS: dict[str, DetailOf] = {"put": _put_detail, "get": _get_detail}
