"""A private /dev/shm: a mount namespace of this process with its own, empty tmpfs.

Inside it an audit is exact (whatever is there, this run left), a full file system can be provoked, and
no other program's files are within reach. Needs root, or a kernel that lets users make user namespaces.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import threading
import time

from omni_verify.contracts.keys import SHM_ROOT
from omni_verify.errors import TargetUnusableError

__all__ = ["available", "enter"]

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
_PROBE_S = 20.0
_LINGER_S = 5.0


def enter(options: str = "") -> None:
    """Move this process into a private mount namespace with an empty tmpfs on /dev/shm.

    Call it in a forked child that has one thread and exits afterwards; there is no way back. User and group
    ids stay as they are, also where a user namespace is needed to be allowed to mount.

    Args:
        options: mount options of the tmpfs, for example ``"size=256k"`` or ``"nr_inodes=3"`` (the root
            folder takes one inode).

    Raises:
        TargetUnusableError: the process has several threads, or the kernel refuses; says which step.
    """
    if (threads := _count_threads()) != 1:
        raise TargetUnusableError(
            f"cannot enter a private mount namespace: this process has {threads} threads. "
            "Fork first; the child has one."
        )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        _unshare_as_user(libc)
    # Without this, the mount would also appear in the namespace we came from.
    _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "making mounts private")
    data = ",".join(part for part in ("mode=1777", options) if part).encode()
    flags = _MS_NOSUID | _MS_NODEV
    step = f"mounting a tmpfs with {data.decode()!r} on {SHM_ROOT}"
    _check(libc.mount(b"omni-verify", SHM_ROOT.encode(), b"tmpfs", flags, data), step)


def _count_threads() -> int:
    """Count the threads of this process; one that has ended, but is still listed, is waited for.

    Who joins a thread, or cancels the watchdog of ``faulthandler``, goes on a moment before the kernel has
    taken it off its list: on a busy machine that moment is long.
    """
    deadline = time.monotonic() + _LINGER_S
    while True:
        threads = len(os.listdir("/proc/self/task"))
        if threads == 1 or threading.active_count() > 1 or time.monotonic() > deadline:
            return threads
        time.sleep(0.001)


@functools.cache
def available() -> str | None:
    """Return None when `enter` works here, else the reason; asked of a process of its own, once.

    The caller's process is neither forked (it may have threads) nor moved.
    """
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\nfrom omni_verify.audit import namespace\nnamespace.enter()"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the probe for private mount namespaces did not run: {error}"
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return last.removeprefix(f"{TargetUnusableError.__module__}.{TargetUnusableError.__name__}: ")


def _unshare_as_user(libc: ctypes.CDLL) -> None:
    """Get the right to mount from a user namespace that maps this user to itself."""
    uid, gid = os.getuid(), os.getgid()
    step = "unshare(CLONE_NEWNS), also within a new user namespace,"
    _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), step)
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "wb", buffering=0) as file:  # the kernel takes one write
                file.write(text.encode())
    except OSError as error:
        raise TargetUnusableError(
            f"cannot enter a private mount namespace: mapping user {uid} failed: {error}."
        ) from error


def _check(result: int, step: str) -> None:
    if result != 0:
        reason = os.strerror(ctypes.get_errno())
        raise TargetUnusableError(f"cannot enter a private mount namespace: {step} failed: {reason}.")
