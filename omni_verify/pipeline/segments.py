"""One POSIX shared-memory segment: created and filled, or read and removed, in one call.

Segments are made with ``posix_ipc``, which has no resource tracker: nothing is unlinked behind the back of a
process that still needs it, and no tracker process grows (W29). They are filled by ``write()`` on the
descriptor: on a full file system that is an ENOSPC, while a store through a mapping is a SIGBUS that kills
the process (W1). It is also the faster way, as no page is faulted in twice.

Both functions rely on the caller to hold the key's lock.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

import posix_ipc

__all__ = ["shm_read_bytes", "shm_write_bytes", "unlink_segment"]

_MODE = 0o600
_SMALL = 64 * 1024  # bytes; above, mapping is cheaper than reading into fresh memory


def shm_write_bytes(payload: bytes | bytearray | memoryview, name: str) -> dict[str, Any]:
    """Create the segment ``name`` with exactly these bytes; return ``{"name", "size"}`` (size in bytes).

    An unread segment of that name is replaced by a new object, never overwritten: a reader that
    has the old one open keeps a whole value.

    Raises:
        OSError: the bytes did not fit (ENOSPC) or the segment cannot be made; nothing is left behind.
    """
    shm = _create(name)
    try:
        _write_all(shm.fd, payload)
    except BaseException:
        unlink_segment(name)
        raise
    finally:
        shm.close_fd()
    return {"name": name, "size": len(payload)}


def _create(name: str) -> posix_ipc.SharedMemory:
    for _ in range(3):
        try:
            return posix_ipc.SharedMemory(f"/{name}", posix_ipc.O_CREX, mode=_MODE)
        except posix_ipc.ExistentialError:
            unlink_segment(name)
    raise FileExistsError(f"segment {name!r} keeps reappearing: another writer ignores the lock of this key")


def _write_all(fd: int, payload: bytes | bytearray | memoryview) -> None:
    written = os.write(fd, payload)
    while written < len(payload):  # tmpfs may take less than asked before it reports ENOSPC
        written += os.write(fd, memoryview(payload)[written:])


def shm_read_bytes(meta: dict[str, Any]) -> bytes | mmap.mmap:
    """Return all bytes of the segment ``meta["name"]`` and unlink it; a large one as a read-only mapping.

    The size is read from the object itself: one that was noted before the lock was taken may belong to an
    earlier object of the same name (W3). An empty result means that the segment exists but holds nothing yet;
    it is then left in place (I18).

    Raises:
        FileNotFoundError: there is no such segment.
    """
    name = meta["name"]
    try:
        shm = posix_ipc.SharedMemory(f"/{name}", read_only=True)
    except posix_ipc.ExistentialError as error:
        raise FileNotFoundError(f"no segment {name!r}") from error
    try:
        data = _read_all(shm.fd)
    finally:
        shm.close_fd()
    if data:
        unlink_segment(name)
    return data


def _read_all(fd: int) -> bytes | mmap.mmap:
    data = os.read(fd, _SMALL)
    if len(data) < _SMALL:
        return data  # a short read of a regular file is its end
    # Complete and about to be unlinked, so nobody shortens it under the mapping.
    return mmap.mmap(fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)


def unlink_segment(name: str) -> bool:
    """Remove a segment; return whether there was one."""
    with contextlib.suppress(posix_ipc.ExistentialError):
        posix_ipc.unlink_shared_memory(f"/{name}")
        return True
    return False
