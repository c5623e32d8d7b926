"""The lock file of one key: mutual exclusion of everything that touches its segment.

vllm-omni addresses the lock by path and removes the path outside the lock, so that a process may hold a lock
that nobody else can see (W3). Here three rules make the path and the lock one thing:

1. A lock counts only if, once it is held, the path still names the locked inode; otherwise try again.
2. The path is removed only while its lock is held.
3. A writer locks an inode that it made itself, so that the inode number identifies one put.

By 1 and 2 at most one process at a time is between acquire and release for a key, also when the file was
removed and made anew meanwhile. No wait is unbounded: a stalled peer costs the caller its time limit, not
more (I24, I29).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence

__all__ = ["KeyLock", "acquire", "acquire_fresh", "try_acquire"]

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE = 0o600
_STALE_RETRIES = 8
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0001, 0.005


class KeyLock:
    """A held lock; ``inode`` is the number of the locked file."""

    __slots__ = ("_fd", "_superseded", "inode", "path")

    def __init__(self, fd: int, path: str, inode: int) -> None:
        self._fd = fd
        self.path = path
        self.inode = inode
        self._superseded: Sequence[KeyLock] = ()

    def supersede(self, older: Sequence[KeyLock]) -> None:
        """Keep locks of removed files held too: a foreign reader may have opened one of them already."""
        self._superseded = older

    def remove(self) -> bool:
        """Remove the lock file; False when the system refuses, which callers treat as harmless (W21)."""
        try:
            os.remove(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Give the lock up; call it exactly once."""
        for lock in self._superseded:
            lock.release()
        try:
            # Closing is not enough: a child that was forked meanwhile holds the file open too.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            os.close(self._fd)


def try_acquire(path: str, *, create: bool = False) -> KeyLock | None:
    """Take the lock without waiting; None when another process holds it.

    Raises:
        FileNotFoundError: no lock file, and ``create`` is false.
        OSError: the file cannot be made or opened.
    """
    flags = _FLAGS | os.O_CREAT if create else _FLAGS
    for _ in range(_STALE_RETRIES):
        lock = _lock_if_current(os.open(path, flags, _MODE), path)
        if lock is not _STALE:
            return lock
    return None


def acquire(path: str, timeout: float, *, create: bool = False) -> KeyLock | None:
    """Take the lock within ``timeout`` seconds, else None. Raises as :func:`try_acquire`."""
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE_S
    while (lock := try_acquire(path, create=create)) is None:
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)
    return lock


def acquire_fresh(path: str, timeout: float) -> KeyLock:
    """Take the lock of a file that this call makes, replacing an existing lock file (rule 3).

    Raises:
        TimeoutError: a peer held the old file's lock for ``timeout`` seconds.
        OSError: the file cannot be made.
    """
    deadline: float | None = None
    pause = _FIRST_PAUSE_S
    superseded: list[KeyLock] = []
    try:
        while True:
            try:
                fd = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
            except FileExistsError:
                older = _try_existing(path)
                if older is not None and not older.remove():
                    return older  # cannot be replaced: lock it as it is
                if older is not None:
                    superseded.append(older)
                    continue
            else:
                lock = _lock_if_current(fd, path)
                if isinstance(lock, KeyLock) and lock is not _STALE:
                    lock.supersede(superseded)
                    superseded = []
                    return lock
            now = time.monotonic()
            deadline = now + timeout if deadline is None else deadline
            if now >= deadline:
                raise TimeoutError(f"{path} stayed locked by another process for {timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
    finally:
        for lock in superseded:
            lock.release()


def _try_existing(path: str) -> KeyLock | None:
    try:
        return try_acquire(path)
    except FileNotFoundError:
        return None


def _lock_if_current(fd: int, path: str) -> KeyLock | None:
    """Lock an open file; None when it is busy, ``_STALE`` when the path no longer names it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
        if found.st_nlink:  # lock files are never renamed or linked: one link means that the path names it
            return KeyLock(fd, path, found.st_ino)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return _STALE


_STALE = KeyLock(-1, "", -1)
