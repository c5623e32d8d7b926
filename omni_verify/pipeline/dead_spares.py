"""Spares whose sender was killed: found and removed by whoever uses the wake directory next (I53)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct

from omni_verify.contracts.keys import OWNER_PATTERN, SPARE_PATTERN

__all__ = ["sweep_dead_spares"]

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid


def sweep_dead_spares(directory: str) -> None:
    """Remove the spares of senders that are dead: no journal of theirs in the directory is locked (I53).

    An unread segment keeps its own name, and is left to whoever reads or reclaims it.
    """
    with contextlib.suppress(OSError):
        names = os.listdir(directory)
        spares = [found for found in map(SPARE_PATTERN.fullmatch, names) if found]
        if not spares:
            return
        owners = [found for found in map(OWNER_PATTERN.fullmatch, names) if found]
        alive = {found["pid"] for found in owners if _is_alive(f"{directory}/{found[0]}", int(found["pid"]))}
        for found in spares:
            if found["pid"] not in alive:
                with contextlib.suppress(OSError):
                    os.unlink(f"{directory}/{found[0]}")


def _is_alive(journal: str, pid: int) -> bool:
    if pid == os.getpid():  # closing a descriptor of our own journal would give up its lock
        return True
    try:
        fd = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Asked for only: a lock that is taken, be it for a moment, would fail the first put of its owner.
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(fd)
