"""Marks of life in a wake directory: a sender's locked crash journal, a receiver's open FIFO.

Both are asked of the kernel and need no look into another process. The journal's form is the reference
connector's: records of 20 digits of the lock file's inode, a slash and the key's file name, each ended by a
zero byte, the whole by a second one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

import msgspec

__all__ = ["OwnerFile", "has_reader", "read_owner_file"]

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


class OwnerFile(msgspec.Struct, frozen=True, kw_only=True):
    """A crash journal.

    Attributes:
        is_held: its record lock is held, so the sender lives; None when the file may not be opened.
        notes: inodes of lock files by the key's file name; 0 for a put that had no lock file yet. Records of
            earlier puts may stand behind the valid ones; their inodes are gone.
    """

    is_held: bool | None
    notes: dict[str, set[int]] = {}


def read_owner_file(path: str, pid: int) -> OwnerFile:
    """Read a journal that `pid` wrote, without taking its lock.

    Our own journal is not opened: a process that closes any descriptor of a file gives up its record lock.
    """
    if pid == os.getpid():
        return OwnerFile(is_held=True)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return OwnerFile(is_held=None)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        with open(fd, "rb", closefd=False) as file:
            text = file.read().partition(b"\0\0")[0].decode(errors="surrogateescape")
    except OSError:
        return OwnerFile(is_held=None)
    finally:
        os.close(fd)
    notes: dict[str, set[int]] = {}
    for record in text.split("\0"):
        inode, slash, name = record.partition("/")
        if slash and inode.isascii() and inode.isdigit():
            notes.setdefault(name, set()).add(int(inode))
    return OwnerFile(is_held=answer[0] != fcntl.F_UNLCK, notes=notes)


def has_reader(path: str) -> bool | None:
    """Tell whether some process has a FIFO open for reading; None when we may not open it."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError as error:
        return False if error.errno == errno.ENXIO else None
    return True
