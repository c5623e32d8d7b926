"""Arrival hints: a sender pokes the FIFOs of the stage it wrote for, so that its receiver need not poll.

A hint carries no key and no data, and every error is ignored: a receiver that gets none still polls on its
timer (I25). The correct use is: take the generation, poll every key, then wait for a change of that
generation.

Senders and receivers meet in the wake directory of their launch (``contracts.keys``). A killed receiver
leaves a FIFO that nobody reads; opening it for writing without blocking fails, and the sender moves on.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from omni_verify.contracts.keys import (
    OWNER_PATTERN,
    SPARE_PATTERN,
    WAKE_FIFO_PATTERN,
    wake_directory,
    wake_fifo_name,
)

__all__ = [
    "ENABLE_VARIABLE",
    "WakeReceiver",
    "WakeSender",
    "make_wake_directory",
    "scope_directory",
    "wakeups_enabled",
]

ENABLE_VARIABLE = "VLLM_OMNI_SHM_WAKEUP"
"""Environment variable: unset or ``1`` turns hints on, anything else off."""

_LISTING_SETTLED_NS = 20_000_000  # directory times advance in ticks of the kernel's clock, 10 ms at most


def wakeups_enabled() -> bool:
    """Tell whether arrival hints are on in this process."""
    return os.environ.get(ENABLE_VARIABLE, "1") == "1"


def scope_directory(config: Mapping[str, Any]) -> str:
    """Return the wake directory of ``config["wakeup_scope"]``, else of this process's launcher."""
    scope = config.get("wakeup_scope")
    return wake_directory(os.getuid(), os.getppid(), None if scope is None else str(scope))


def make_wake_directory(path: str) -> None:
    """Create the directory if needed.

    Raises:
        OSError: it cannot be made, or the path is no directory of this user.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.stat(path, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} exists but is no directory of user {os.getuid()}")


class WakeReceiver:
    """The FIFO of one receiving stage, opened on first use."""

    def __init__(self, directory: str, stage_id: object) -> None:
        self._directory = directory
        self._stage_id = stage_id
        self._lock = threading.Lock()
        self._generation = 0
        self._path: str | None = None
        self._read_fd = self._write_fd = -1
        self._unusable = not wakeups_enabled()

    def get_generation(self) -> int | None:
        """Return the number of hint batches seen so far, or None when hints do not work here."""
        with self._lock:
            if self._path is None and not self._unusable:
                self._open()
            return None if self._unusable else self._generation

    def _open(self) -> None:
        path = ""
        try:
            make_wake_directory(self._directory)
            path = f"{self._directory}/{wake_fifo_name(self._stage_id, uuid.uuid4().hex)}"
            os.mkfifo(path, 0o600)
            self._path = path
            self._read_fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # Our own write end: without it every sender that leaves would make the read end ready for good.
            self._write_fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._dispose()

    def wait_for_change(self, generation: int, *, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds for a hint newer than ``generation``; True if there is one."""
        with self._lock:
            if self._unusable or self._path is None:
                return False
            if self._drain() != generation:
                return True
            fd = self._read_fd
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.poll(max(0, round(timeout * 1000)))
        with self._lock:
            return not self._unusable and self._drain() != generation

    def _drain(self) -> int:
        with contextlib.suppress(OSError):
            if os.read(self._read_fd, 65536):
                self._generation += 1
        return self._generation

    def close(self) -> None:
        """Remove the FIFO and wake a waiting thread; idempotent."""
        with self._lock:
            if self._write_fd >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._write_fd, b"\0")
            self._dispose()

    def _dispose(self) -> None:
        self._unusable = True
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._read_fd = self._write_fd = -1
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = None


class WakeSender:
    """Pokes receivers; keeps their FIFOs open for as long as the directory does not change."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._enabled = wakeups_enabled()
        # Held while a descriptor is used: another thread's close would give its number to another file.
        self._lock = threading.Lock()
        self._directory_fd = -1
        self._listed_mtime = -1
        self._fifos: dict[str, dict[str, int]] = {}  # stage -> path -> descriptor, -1 when it is not open

    def notify(self, to_stage: object) -> None:
        """Write one byte to every FIFO of the stage; never blocks and never raises an OSError."""
        if not self._enabled:
            return
        with self._lock:
            try:
                found = self._look_at_directory()
                if found.st_mtime_ns != self._listed_mtime:
                    self._list(found.st_mtime_ns)
            except OSError:  # no directory: nobody receives in this launch
                self._forget()
                return
            fifos = self._fifos.get(str(to_stage), {})
            for path in fifos:
                self._poke(fifos, path)

    def _look_at_directory(self) -> os.stat_result:
        """Return the directory's state through a kept descriptor: half the time of a path, once a chunk."""
        if self._directory_fd >= 0:
            found = os.fstat(self._directory_fd)
            if found.st_nlink:
                return found
            self._forget()  # removed, and perhaps made anew
        self._directory_fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return os.fstat(self._directory_fd)

    def _list(self, mtime: int) -> None:
        fifos: dict[str, dict[str, int]] = {}
        known = {path: fd for group in self._fifos.values() for path, fd in group.items()}
        for name in os.listdir(self._directory):
            if OWNER_PATTERN.fullmatch(name) or SPARE_PATTERN.fullmatch(name):  # read as a FIFO's name too
                continue
            if match := WAKE_FIFO_PATTERN.fullmatch(name):
                path = f"{self._directory}/{name}"
                fifos.setdefault(match["stage"], {})[path] = known.pop(path, -1)
        _close_all(known.values())
        # A FIFO made within the same clock tick would leave the time unchanged: trust only a settled one.
        settled = time.time_ns() - mtime > _LISTING_SETTLED_NS
        self._fifos, self._listed_mtime = fifos, mtime if settled else -1

    @staticmethod
    def _poke(fifos: dict[str, int], path: str) -> None:
        fd = fifos[path]
        try:
            if fd < 0:
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
                if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                    os.close(fd)
                    return
                fifos[path] = fd
            os.write(fd, b"\1")
        except BlockingIOError:  # full of hints
            return
        except OSError:  # its reader is gone; Python ignores SIGPIPE
            if fd >= 0:
                os.close(fd)
            fifos[path] = -1

    def _forget(self) -> None:
        for group in self._fifos.values():
            _close_all(group.values())
        _close_all([self._directory_fd])
        self._directory_fd, self._listed_mtime, self._fifos = -1, -1, {}

    def close(self) -> None:
        """Let the FIFOs go; idempotent, and later hints go nowhere."""
        self._enabled = False
        with self._lock:
            self._forget()


def _close_all(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        if fd >= 0:
            os.close(fd)
