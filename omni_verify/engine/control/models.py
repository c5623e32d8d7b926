"""Which real name stands for which model: the tables that `instrument` works from."""

from __future__ import annotations

import builtins
import collections
import fcntl
import multiprocessing
import os
import queue
import select
import threading
import time
import uuid
from collections.abc import Callable
from multiprocessing import shared_memory
from types import ModuleType
from typing import Any

from omni_verify.engine.control import (
    clock,
    conditions,
    deques,
    files,
    identifiers,
    locks,
    polling,
    queues,
    threads,
)
from omni_verify.engine.control.files import facade

__all__ = ["BASES", "FACADES", "OBJECTS", "remake"]

_THREADING = {
    name: getattr(module, name)
    for module in (locks, conditions, threads)
    for name in module.__all__
    if hasattr(threading, name)
}
_TIME = {name: getattr(clock, name) for name in clock.__all__ if hasattr(time, name)}
_QUEUE = {name: getattr(queues, name) for name in queues.__all__}
_FCNTL = {"flock": files.flock, "lockf": files.lockf}
_OS = files.os_functions()
_SELECT = {"poll": polling.poll, "select": polling.select}
_UUID = {name: getattr(identifiers, name) for name in identifiers.__all__}

FACADES: dict[int, ModuleType] = {
    id(threading): facade(threading, _THREADING),
    id(time): facade(time, _TIME),
    id(queue): facade(queue, _QUEUE),
    id(fcntl): facade(fcntl, _FCNTL),
    id(os): facade(os, _OS),
    id(select): facade(select, _SELECT),
    id(uuid): facade(uuid, _UUID),
    id(collections): facade(collections, {"deque": deques.deque}),
    id(shared_memory): facade(shared_memory, {"SharedMemory": files.SharedMemory}),
}
FACADES[id(multiprocessing)] = facade(multiprocessing, {"shared_memory": FACADES[id(shared_memory)]})

# Objects that a module may have imported by name.
OBJECTS: dict[int, Any] = {
    **{id(getattr(threading, name)): model for name, model in _THREADING.items()},
    **{id(getattr(time, name)): model for name, model in _TIME.items()},
    **{id(getattr(queue, name)): model for name, model in _QUEUE.items()},
    **{id(getattr(fcntl, name)): model for name, model in _FCNTL.items()},
    **{id(getattr(os, name)): model for name, model in _OS.items()},
    **{id(getattr(select, name)): model for name, model in _SELECT.items()},
    **{id(getattr(uuid, name)): model for name, model in _UUID.items()},
    id(collections.deque): deques.deque,
    id(shared_memory.SharedMemory): files.SharedMemory,
    id(builtins.open): files.open_file,
}

# Real base classes of classes that were defined before instrumentation.
BASES: dict[type, type] = {
    threading.Thread: threads.Thread,
    threading.Timer: threads.Timer,
    threading.local: threads.local,
    queue.Queue: queues.Queue,
    queue.LifoQueue: queues.LifoQueue,
    queue.PriorityQueue: queues.PriorityQueue,
}

_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def remake(value: Any) -> Any:
    """A model in the place of a real primitive made at import time, or None when ``value`` is not one.

    The real primitive is taken to be idle: nobody holds a module-level lock between two executions.
    """
    make = _MAKERS.get(type(value))
    return make(value) if make is not None else None


def _event(real: threading.Event) -> conditions.Event:
    made = conditions.Event()
    made.flag = real.is_set()
    return made


_MAKERS: dict[type, Callable[[Any], Any]] = {
    _LOCK: lambda real: locks.Lock(),
    _RLOCK: lambda real: locks.RLock(),
    threading.Condition: lambda real: conditions.Condition(remake(real._lock)),
    threading.Event: _event,
    threading.Semaphore: lambda real: locks.Semaphore(real._value),
    threading.BoundedSemaphore: lambda real: locks.BoundedSemaphore(real._initial_value),
    queue.Queue: lambda real: queues.Queue(real.maxsize),
    queue.LifoQueue: lambda real: queues.LifoQueue(real.maxsize),
    queue.PriorityQueue: lambda real: queues.PriorityQueue(real.maxsize),
    queue.SimpleQueue: lambda real: queues.SimpleQueue(),
    threading.local: lambda real: threads.local(),
    collections.deque: lambda real: deques.deque(real, real.maxlen),
}
