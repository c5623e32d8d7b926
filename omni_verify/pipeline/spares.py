"""Memory of large segments that have been read, kept for the next ones of the same sender.

Most of what a large chunk costs is memory that the kernel hands out when the segment is filled and takes back
when it is unlinked. A spare is a second name, in the wake directory of the launch, of a segment's memory.
A reader unlinks the segment as ever; the spare then holds the only link, and the sender fills it again and
links it under the next key. What follows from that:

* Memory is written to only while the spare is its only name and nobody else has it open or mapped. The kernel
  answers the second question: it grants a write lease to nobody else. So a reader keeps a whole value, also
  one that reads without the key's lock (I18, I26, W3).
* A segment gets its name when it is complete.
* Spares come and go with the chunks: an idle sender drops them at its second :meth:`SparePool.trim` (I51), a
  closed one at once (I22), and those of a killed one go when the next sender begins or a sibling closes
  (I53). They take a bounded part of the file system, and none of it once a put has failed for want of space
  (W1, I27).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
import uuid
from collections import deque

from omni_verify.contracts.keys import SHM_ROOT, spare_name

__all__ = ["MOST_SPARE_BYTES", "SPARE_FROM_BYTES", "Spare", "SparePool"]

SPARE_FROM_BYTES = 64 * 1024
"""Smallest segment that is worth it: below, a second name costs what the memory does."""

MOST_SPARE_BYTES = 16 * 1024 * 1024
"""Largest pool of one sender, and never more than a 32nd of the file system."""

_LOOKS = 2  # spares that one put looks at; the others are looked at by later ones


class Spare:
    """One spare: its path, the bytes that it holds, and a descriptor to write with while it is taken."""

    __slots__ = ("fd", "path", "size")

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size, self.fd = path, size, -1

    def open(self, flags: int = 0) -> bool:
        """Open it; False when somebody removed it, or it cannot be made."""
        try:
            self.fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        except OSError:
            return False
        return True

    def shorten(self, size: int) -> None:
        """Cut off what an earlier, longer segment left behind the ``size`` bytes that were just written."""
        if size < self.size:
            os.ftruncate(self.fd, size)

    def close(self) -> None:
        """Give the descriptor back; idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def is_alone(self) -> bool:
        """Tell whether the open spare is the only name of its memory, and we are the only ones to have it.

        Raises:
            OSError: the file system has no leases, so it cannot be told.
        """
        if os.fstat(self.fd).st_nlink != 1:
            return False
        try:
            # Who opens the file just now breaks the lease, and its holder gets a signal: one that is ignored
            # by default, for SIGIO would end the process.
            fcntl.fcntl(self.fd, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return False
        return True


class SparePool:
    """The spares of one connector; safe for concurrent use by its threads.

    Args:
        directory: the wake directory, which the sender's journal has made by the time of the first put.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._spares: deque[Spare] = deque()
        self._pid = -1
        self._bytes = 0
        self._most = 0
        self._used = False
        self._closed = False

    def take(self, size: int) -> Spare | None:
        """Return an open spare that nobody else has, for a segment of this size; a new one if need be.

        None when the pool is full or closed, or a spare cannot be made: an ordinary segment must do.
        The spare belongs to the caller until it goes to :meth:`put_back` or :meth:`discard`.
        """
        with self._lock:
            self._used = True
            if self._closed:
                return None
            if self._pid != os.getpid():  # first use, or a forked child, to which the spares do not belong
                self._start()
            for _ in range(min(_LOOKS, len(self._spares))):
                spare = self._spares.popleft()
                if not spare.open():
                    self._remove(spare)
                elif not self._is_alone(spare):
                    spare.close()
                    self._spares.append(spare)
                elif spare.size.bit_length() != size.bit_length():
                    self._remove(spare)
                else:
                    return spare
            return self._make(size)

    def _is_alone(self, spare: Spare) -> bool:
        try:
            return spare.is_alone()
        except OSError:
            self._most = 0  # never to be told: this was the last one
            return False

    def _start(self) -> None:
        found = os.statvfs(SHM_ROOT)
        self._pid, self._bytes = os.getpid(), 0
        self._spares.clear()
        self._most = min(MOST_SPARE_BYTES, found.f_frsize * found.f_blocks // 32)

    def _make(self, size: int) -> Spare | None:
        if self._bytes + size > self._most:
            return None
        spare = Spare(f"{self._directory}/{spare_name(self._pid, uuid.uuid4().hex)}", size)
        if not spare.open(os.O_CREAT | os.O_EXCL):
            return None
        self._bytes += size
        return spare

    def put_back(self, spare: Spare, size: int) -> None:
        """Keep a spare that has been filled with ``size`` bytes; a closed pool removes it."""
        with self._lock:
            spare.close()
            self._bytes += size - spare.size
            spare.size = size
            if self._closed:
                self._remove(spare)
            else:
                self._spares.append(spare)

    def discard(self, spare: Spare) -> None:
        """Remove a spare that could not be filled, and all others: memory has become scarce."""
        with self._lock:
            self._remove(spare)
            self._empty()

    def trim(self) -> None:
        """Drop every spare if none was asked for since the last call that found some; called while idle."""
        if self._spares:
            with self._lock:
                if not self._used:
                    self._empty()
                self._used = False

    def close(self) -> None:
        """Drop every spare; idempotent, and later puts get none."""
        with self._lock:
            self._closed = True
            self._empty()

    def _empty(self) -> None:
        if self._pid == os.getpid():
            while self._spares:
                self._remove(self._spares.popleft())

    def _remove(self, spare: Spare) -> None:
        spare.close()
        self._bytes -= spare.size
        with contextlib.suppress(OSError):
            os.unlink(spare.path)
