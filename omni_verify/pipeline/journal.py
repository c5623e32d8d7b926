"""Crash journal of a sender: what to remove if it is killed with chunks unread (I53).

No explicit close runs in a killed process, and a connector must not unlink from a destructor (W28). So a
sender keeps one owner file in the wake directory of its launch, locked for as long as the process lives, and
notes each put in it: the key before the lock file exists, and then the lock file's inode before the
segment exists.

When a sibling closes, or the launching process itself, it looks for owner files whose lock is free. For each
noted inode that still is the key's lock file it removes segment and lock file, under that lock. An inode
names exactly one put (``lockfile`` rule 3), so a chunk that was consumed, or replaced by another sender, is
never touched.

The file is mapped, because a note is on the path of every chunk and a store costs a tenth of a call. Its
space is allocated before it is mapped, so that a full file system is an error here too and no SIGBUS (W1).

Sweeping waits for a close on purpose. A chunk of a process that ended may still be read; only the end of
a run says that nobody will.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import uuid
from collections.abc import Iterable

from omni_verify.contracts.keys import OWNER_PATTERN, lock_path, owner_name, segment_path
from omni_verify.pipeline import lockfile
from omni_verify.pipeline.dead_spares import sweep_dead_spares
from omni_verify.pipeline.segments import unlink_segment
from omni_verify.pipeline.wakeup import make_wake_directory

__all__ = ["OwnerJournal", "sweep_dead_owners"]

_INTENT = 0
_INODE_DIGITS = 20
_INTENT_HEAD = b"%0*d/" % (_INODE_DIGITS, _INTENT)
_COMPACT_BYTES = 4 * 96  # per pending put: four times a usual record
_SWEEP_LOCK_TIMEOUT_S = 0.1


class OwnerJournal:
    """The owner file of one connector, made by the first put.

    Callers serialize the calls, except :meth:`note_put`: it may run while another put notes its intent.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1
        self._path = ""
        self._pid = -1
        self._map: mmap.mmap | None = None
        self._end = 0

    def note_intent(self, name: str) -> int:
        """Note that a lock file for this file name is about to be made; return the record's offset.

        Raises:
            OSError: the journal cannot be written; the put must not go on.
        """
        if self._pid != os.getpid():  # first use, or first use after a fork: record locks are not inherited
            self._open()
        offset = self._end
        self._write(_INTENT_HEAD + name.encode() + b"\0")
        return offset

    def note_put(self, offset: int, inode: int) -> None:
        """Note the lock file's inode, before the segment is made."""
        # Up to 16 digits are one store, which a kill cannot cut in two.
        digits = b"%016d" % inode
        end = offset + _INODE_DIGITS
        if self._map is not None:
            self._map[end - len(digits) : end] = digits

    def _write(self, records: bytes) -> None:
        """Append records and the zero byte that ends the journal."""
        end, book = self._end + len(records), self._map
        if book is None or end >= len(book):
            book = self._grow(end + 1)
        book[self._end : end + 1] = records + b"\0"
        self._end = end

    def _grow(self, size: int) -> mmap.mmap:
        size = -(-2 * size // mmap.PAGESIZE) * mmap.PAGESIZE
        os.posix_fallocate(self._fd, 0, size)
        if self._map is None:
            self._map = mmap.mmap(self._fd, size)
        else:
            self._map.resize(size)
        return self._map

    def _open(self) -> None:
        make_wake_directory(self._directory)
        sweep_dead_spares(self._directory)  # of the process that this one may have been started for
        path = f"{self._directory}/{owner_name(os.getpid(), uuid.uuid4().hex)}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # A record lock belongs to the process: a forked child does not keep it alive after a kill.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        self._fd, self._path, self._pid, self._map, self._end = fd, path, os.getpid(), None, 0

    def forget_all(self) -> None:
        """Start over; for when no put is pending or under way.

        Old records stay in the file until they are written over. They are harmless: the inodes that they name
        are gone.
        """
        self._end = 0

    def is_long(self, count: int) -> bool:
        """Tell whether the journal has outgrown ``count`` pending puts."""
        return self._end >= _COMPACT_BYTES * (count + 256)

    def compact(self, pending: Iterable[tuple[str, int]]) -> None:
        """Rewrite the journal for the pending puts; for when no put is under way.

        The old file stays until the new one is complete, so that a kill in between loses nothing.
        """
        if self._pid != os.getpid():
            return
        old = self._fd, self._path, self._map, self._end
        try:
            self._open()
            records = (f"{inode:0{_INODE_DIGITS}}/{name}\0" for name, inode in pending)
            self._write("".join(records).encode())
        except OSError:
            if self._fd != old[0]:
                self._discard(self._fd, self._path)
            self._fd, self._path, self._map, self._end = old
            return
        self._discard(old[0], old[1])

    def close(self) -> None:
        """Remove the owner file; idempotent."""
        if self._fd >= 0 and self._pid == os.getpid():
            self._discard(self._fd, self._path)
        self._fd, self._pid, self._map = -1, -1, None

    @staticmethod
    def _discard(fd: int, path: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(fd)


def sweep_dead_owners(directory: str) -> int:
    """Remove what dead siblings left unread, their owner files and spares; return the number of segments.

    Owner files of this very process are skipped unopened: they are live, and opening one would end its lock.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            match = OWNER_PATTERN.fullmatch(name)
            if match and int(match["pid"]) != os.getpid():
                with contextlib.suppress(OSError):
                    removed += _sweep_owner(f"{directory}/{name}")
    sweep_dead_spares(directory)
    return removed


def _sweep_owner(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: the owner lives
        with open(fd, "rb", closefd=False) as file:
            records = file.read().partition(b"\0\0")[0].decode().split("\0")
        results = [_reclaim(*record.split("/", 1)) for record in records if record]
        if None not in results:
            os.unlink(path)
        return results.count(True)
    finally:
        os.close(fd)


def _reclaim(inode: str, name: str) -> bool | None:
    """Remove one noted put; True if a segment went away, None if its lock stayed busy."""
    try:
        lock = lockfile.acquire(lock_path(name), _SWEEP_LOCK_TIMEOUT_S)
    except FileNotFoundError:
        return False
    if lock is None:
        return None
    try:
        if int(inode) == lock.inode:
            found = unlink_segment(name)
            lock.remove()
            return found
        if int(inode) == _INTENT and not os.path.exists(segment_path(name)):
            lock.remove()
        return False
    finally:
        lock.release()
