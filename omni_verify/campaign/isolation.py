"""Where a job's shared memory lives: a private /dev/shm, or a key prefix on the common one."""

from __future__ import annotations

import ctypes
import errno
import os
import signal

from omni_verify.audit import namespace, shm
from omni_verify.errors import TargetUnusableError, unknown_value

__all__ = ["adopt_orphans", "choose", "die_with_parent", "enter", "sweep"]

MODES = ("auto", "mount", "prefix")
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def choose(wanted: str) -> tuple[str, str]:
    """Return the mode that the jobs get and, for a prefix that was not asked for, the reason.

    Raises:
        UsageError: not one of ``MODES``.
        TargetUnusableError: ``"mount"`` was asked for and the system does not permit it.
    """
    if wanted not in MODES:
        raise unknown_value("isolation", wanted, MODES)
    if wanted == "prefix":
        return "prefix", ""
    refusal = namespace.available()
    if refusal is None:
        return "mount", ""
    if wanted == "mount":
        raise TargetUnusableError(
            f"a private /dev/shm is not available here: {refusal}. Use --isolation prefix."
        )
    return "prefix", refusal


def enter(mode: str, shm_options: str, namespace_of: int) -> None:
    """Move this process to its private /dev/shm (or into the one of `namespace_of`)."""
    if mode != "mount":
        return
    if namespace_of:
        _join(namespace_of)
    else:
        namespace.enter(shm_options)


def sweep(prefix: str) -> None:
    """Remove every object under /dev/shm that belongs to `prefix`; never anything else."""
    shm.sweep(prefix)


def die_with_parent(parent: int) -> None:
    """End this process when the process that started it ends, however that happens.

    Args:
        parent: its pid, noted before the start: it may have ended already, and then nobody is told.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that the peers of a killed job are reaped."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _join(pid: int) -> None:
    """Move this single-threaded process into the mount namespace of another one.

    Where that one needed a user namespace to be allowed to mount, joining it gives the right to follow.
    """
    refusal = _set_namespace(pid, "mnt", _CLONE_NEWNS)
    if refusal == errno.EPERM and not _set_namespace(pid, "user", _CLONE_NEWUSER):
        refusal = _set_namespace(pid, "mnt", _CLONE_NEWNS)
    if refusal:
        raise TargetUnusableError(
            f"cannot join the mount namespace of process {pid}: {os.strerror(refusal)}."
        )


def _set_namespace(pid: int, kind: str, flag: int) -> int:
    """Join a namespace of another process; return 0 or the error number."""
    try:
        fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        return 0 if ctypes.CDLL(None, use_errno=True).setns(fd, flag) == 0 else ctypes.get_errno()
    finally:
        os.close(fd)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
