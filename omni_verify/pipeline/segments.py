"""One POSIX shared-memory segment: created and filled, or read and removed, in one call.

Segments are made with ``posix_ipc``, which has no resource tracker: nothing is unlinked behind the back of a
process that still needs it, and no tracker process grows (W29). They are filled by ``write()`` on the
descriptor: on a full file system that is an ENOSPC, while a store through a mapping is a SIGBUS that kills
the process (W1). They are read the same way. Both are faster than a mapping, as no page is faulted in twice.
A large one is written to memory of an earlier one where the sender has some (``spares``).

Both functions rely on the caller to hold the key's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import posix_ipc

from omni_verify.contracts.keys import segment_path
from omni_verify.pipeline.spares import SPARE_FROM_BYTES, Spare, SparePool
from omni_verify.pipeline.wire import Received, landing

__all__ = ["shm_read_bytes", "shm_write_bytes", "unlink_segment"]

_Made = TypeVar("_Made")
_MODE = 0o600
_SMALL = 64 * 1024  # bytes; above, the size is asked for before the memory is


def shm_write_bytes(
    payload: bytes | Sequence[bytes | memoryview], name: str, spares: SparePool | None = None
) -> dict[str, Any]:
    """Create the segment ``name`` with exactly these bytes; return ``{"name", "size"}`` (size in bytes).

    An unread segment of that name is replaced by a new object, never overwritten: a reader that
    has the old one open keeps a whole value.

    Args:
        payload: the bytes, or pieces that make them up in a row.
        name: the segment's, without a slash.
        spares: memory of the sender's earlier segments.

    Raises:
        OSError: the bytes did not fit (ENOSPC) or the segment cannot be made; nothing is left behind.
    """
    pieces = [payload] if isinstance(payload, bytes) else payload
    size = sum(map(len, pieces))
    spare = spares.take(size) if spares is not None and size >= SPARE_FROM_BYTES else None
    if spares is None or spare is None or not _fill_spare(spares, spare, pieces, name, size):
        _fill_new(pieces, name)
    return {"name": name, "size": size}


def _fill_new(pieces: Sequence[bytes | memoryview], name: str) -> None:
    shm = _create(name)
    try:
        for piece in pieces:
            _write_all(shm.fd, piece)
    except BaseException:
        unlink_segment(name)
        raise
    finally:
        shm.close_fd()


def _fill_spare(
    spares: SparePool, spare: Spare, pieces: Sequence[bytes | memoryview], name: str, size: int
) -> bool:
    """Make the segment of a spare that the caller has taken; False when it is gone, or may not be linked."""
    try:
        for piece in pieces:
            _write_all(spare.fd, piece)
        spare.shorten(size)
        _in_place_of_old(name, lambda: os.link(spare.path, segment_path(name)))
    except (FileNotFoundError, PermissionError):
        spares.discard(spare)
        return False
    except BaseException:
        spares.discard(spare)
        raise
    spares.put_back(spare, size)
    return True


def _create(name: str) -> posix_ipc.SharedMemory:
    return _in_place_of_old(name, lambda: posix_ipc.SharedMemory(f"/{name}", posix_ipc.O_CREX, mode=_MODE))


def _in_place_of_old(name: str, make: Callable[[], _Made]) -> _Made:
    """Make the segment, removing one of the same name that stands in the way."""
    for _ in range(3):
        try:
            return make()
        except (posix_ipc.ExistentialError, FileExistsError):
            unlink_segment(name)
    raise FileExistsError(f"segment {name!r} keeps reappearing: another writer ignores the lock of this key")


def _write_all(fd: int, payload: bytes | memoryview) -> None:
    written = os.write(fd, payload)
    while written < len(payload):  # tmpfs may take less than asked before it reports ENOSPC
        written += os.write(fd, memoryview(payload)[written:])


def shm_read_bytes(meta: dict[str, Any]) -> bytes | Received:
    """Return all bytes of the segment ``meta["name"]`` and unlink it.

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


def _read_all(fd: int) -> bytes | Received:
    head = os.read(fd, _SMALL)
    if len(head) < _SMALL:
        return head  # a short read of a regular file is its end
    size = os.fstat(fd).st_size
    data: Any = landing(head, size)
    data[: len(head)] = memoryview(head)
    done = len(head)
    while done < size and (count := os.preadv(fd, [data[done:]], done)):
        done += count
    taken: Received = data[:done]
    return taken


def unlink_segment(name: str) -> bool:
    """Remove a segment; return whether there was one."""
    try:
        posix_ipc.unlink_shared_memory(f"/{name}")
    except posix_ipc.ExistentialError:
        return False
    return True
