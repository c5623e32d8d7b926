"""Files, file locks and shared memory: the real calls, each preceded by a point.

`flock` asks the kernel: a lock that would block is taken only when a non-blocking attempt succeeds, and
until then the task is not enabled. So closing a file releases its lock as in reality, and locks held by
other processes count.
"""

from __future__ import annotations

import builtins
import fcntl as real_fcntl
import functools
import os as real_os
import re
from multiprocessing import shared_memory as real_shared_memory
from types import ModuleType
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.publish import publish

__all__ = ["OS_POINTS", "SharedMemory", "flock", "open_file", "os_functions"]

# Functions of `os` that change or look at shared names, and the points that they reach.
OS_POINTS = {
    "mkfifo": "fs.mkfifo",
    "open": "fs.open",
    "remove": "fs.remove",
    "rename": "fs.rename",
    "replace": "fs.rename",
    "unlink": "fs.remove",
    "write": "fs.write",
    "read": "fs.read",
}


def flock(fd: Any, operation: int) -> None:
    """Model of `fcntl.flock` for files of the instrumented modules."""
    t = state.current
    if t is None:
        return real_fcntl.flock(fd, operation)
    key = _path_of(fd)
    if operation & real_fcntl.LOCK_UN:
        publish("lock.unlock", None, key)
        return real_fcntl.flock(fd, operation)
    publish("lock.flock", None, key)
    if operation & real_fcntl.LOCK_NB:
        return real_fcntl.flock(fd, operation)
    while not _try(fd, operation):
        t.kind, t.key = "lock.flock", key
        t.sched.wait_until(t, lambda: _is_free(fd, operation))
    return None


def _try(fd: Any, operation: int) -> bool:
    try:
        real_fcntl.flock(fd, operation | real_fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(fd: Any, operation: int) -> bool:
    """Whether the lock could be taken now; takes nothing."""
    if not _try(fd, operation):
        return False
    real_fcntl.flock(fd, real_fcntl.LOCK_UN)
    return True


def lockf(fd: Any, operation: int, *args: Any) -> Any:
    """POSIX record locks belong to the process, so tasks of one process never block each other."""
    if state.current is not None and not operation & (real_fcntl.LOCK_UN | real_fcntl.LOCK_NB):
        raise Mistake("fcntl.lockf without LOCK_NB may block in C and cannot be controlled; use fcntl.flock.")
    return real_fcntl.lockf(fd, operation, *args)


def open_file(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Model of the built-in ``open``."""
    publish("fs.open", None, _name(file))
    return builtins.open(file, *args, **kwargs)


def os_functions() -> dict[str, Any]:
    """Replacements for functions of `os`, by name."""
    return {name: _with_point(getattr(real_os, name), kind) for name, kind in OS_POINTS.items()}


def _with_point(function: Any, kind: str) -> Any:
    def controlled(target: Any, *args: Any, **kwargs: Any) -> Any:
        publish(kind, None, _name(target))
        return function(target, *args, **kwargs)

    controlled.__name__ = function.__name__
    return controlled


class SharedMemory(real_shared_memory.SharedMemory):
    """Model of `multiprocessing.shared_memory.SharedMemory`: creating, opening and unlinking are points."""

    def __init__(self, name: str | None = None, create: bool = False, size: int = 0, **kwargs: Any) -> None:  # noqa: FBT001 - CPython's signature
        publish("seg.create" if create else "seg.open", None, name)
        super().__init__(name, create, size, **kwargs)

    def unlink(self) -> None:
        publish("seg.unlink", None, self.name)
        super().unlink()


def facade(real: ModuleType, replaced: dict[str, Any]) -> ModuleType:
    """A module that is ``real`` except for some names."""
    made = ModuleType(real.__name__, real.__doc__)
    made.__dict__.update({k: v for k, v in vars(real).items() if k not in ("__name__", "__doc__")})
    made.__dict__.update(replaced)
    return made


def _name(target: Any) -> str:
    """Key of a path or descriptor; never the number of a descriptor, which is not the same in a replay."""
    if isinstance(target, (str, bytes, real_os.PathLike)):
        return _lasting(real_os.path.basename(real_os.fsdecode(target)))
    return _path_of(target) if isinstance(target, int) else "file"


def _path_of(fd: Any) -> str:
    number = fd if isinstance(fd, int) else fd.fileno()
    try:
        return _lasting(real_os.path.basename(real_os.readlink(f"/proc/self/fd/{number}")))
    except OSError:
        return "closed"


def _lasting(name: str) -> str:
    """Return the name without the ids of this process and its parent, which a replay does not have again."""
    return _ids(real_os.getpid(), real_os.getppid()).sub("PID", name)


@functools.lru_cache(maxsize=4)
def _ids(pid: int, parent: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9a-zA-Z])(?:{pid}|{parent})(?![0-9a-zA-Z])")
