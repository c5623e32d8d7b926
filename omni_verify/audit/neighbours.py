"""The living processes of this machine, as far as they matter to a file in shared memory.

Two questions: who has a file mapped or open (by device and inode, so that a file that was unlinked and made
anew is told apart), and who *could* take part in a transfer although it has nothing open. The real
connectors close a segment right after they have written it, so the second question decides.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Mapping

import msgspec

__all__ = ["Neighbour", "Neighbours", "look_around", "mounted_devices", "sees_every_process"]

# What a process that sends or receives chunks has loaded: torch, in every release and in the reference, which
# also has posix_ipc. A resource tracker loads neither, but removes at its end what its clients left.
_LIBRARIES = re.compile(r"/(?:libtorch|libc10|posix_ipc)[^/]*$|/torch/[^/]+\.so", re.MULTILINE)
_TRACKER = b"multiprocessing.resource_tracker"
_STATIC_KIB = 64
_KERNEL_THREAD = 0x00200000
_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel
_OWN_MOUNT = "omni-verify"
_MAPPING = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)", re.MULTILINE)


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """One living process.

    Attributes:
        pid: process id.
        started: clock ticks from boot to its start; with the pid it names a process for good.
        parent: pid of its parent.
        name: its command name.
        uids: its real, effective, saved and file-system user.
        unread: why its mappings or descriptors could not be read; empty when they were.
        can_run: it has loaded what a connector needs, or that cannot be ruled out.
        devices: file systems that it can reach by a path, or None when that is not known.
        mapped, opened: identities of files that it has mapped, and open.
    """

    pid: int
    started: int
    parent: int
    name: str
    uids: frozenset[int]
    unread: str = ""
    can_run: bool = True
    devices: frozenset[int] | None = None
    mapped: frozenset[tuple[int, int]] = frozenset()
    opened: frozenset[tuple[int, int]] = frozenset()

    @property
    def identity(self) -> tuple[int, int]:
        """Pid and start; a later process of the same pid has another."""
        return self.pid, self.started

    def could_take_part(self, device: int, uid: int) -> bool:
        """Tell whether it could send, receive or remove a file of this user on this file system.

        Participants of one launch run under one user: files are made with mode 0600, and a wake directory
        carries the user's number and is refused when it belongs to another.
        """
        reaches = self.devices is None or device in self.devices
        return self.can_run and reaches and uid in self.uids


Neighbours = Mapping[int, Neighbour]
"""Living processes by pid."""


def look_around(device: int | None) -> dict[int, Neighbour]:
    """Look at every process, keeping identities of files on the given file system only.

    What ends while we look, and kernel threads, are left out. A process that may not be read is kept, with
    the reason in `unread`.

    Args:
        device: the file system; None asks for pids and parents only, which is much cheaper.
    """
    by_path = device in (mounted_devices() or ())
    found: dict[int, Neighbour] = {}
    looked_at: set[int] = set()
    # A process may leave a child that our list does not have, and end before it is looked at.
    while pids := {int(name) for name in os.listdir("/proc") if name.isdigit()} - looked_at:
        looked_at |= pids
        for pid in sorted(pids):
            neighbour = _meet(pid)
            if neighbour is not None and device is not None:
                neighbour = _look_into(neighbour, device, by_path=by_path)
            if neighbour is not None:
                found[pid] = neighbour
    return found


def _meet(pid: int) -> Neighbour | None:
    """Read what everybody may see of a process; None when it has ended or is a kernel thread."""
    try:
        status = _status(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX" or int(fields[6]) & _KERNEL_THREAD:
        return None
    return Neighbour(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        name=status["Name"],
        uids=frozenset(map(int, status["Uid"].split())),
        # A statically linked program loads no Python extension; the size of its libraries is public.
        can_run=_library_kib(status) >= _STATIC_KIB,
    )


def _look_into(neighbour: Neighbour, device: int, *, by_path: bool) -> Neighbour | None:
    """Add what a process has mapped, open, loaded and mounted; None when it has ended."""
    pid, unread = neighbour.pid, ""
    can_run, mapped, opened = neighbour.can_run, frozenset[tuple[int, int]](), frozenset[tuple[int, int]]()
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            maps = file.read()
        can_run = _LIBRARIES.search(maps) is not None or _TRACKER in _command_line(pid)
        mapped = _mapped_files(maps, device)
        opened = _open_files(pid, device)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        unread = error.strerror or "cannot be read"
    try:
        devices = mounted_devices(pid) if by_path else None
    except ProcessLookupError:
        return None
    return msgspec.structs.replace(
        neighbour,
        unread=unread,
        can_run=can_run,
        devices=devices,
        mapped=mapped,
        opened=opened,
    )


def _command_line(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def _status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def _library_kib(status: Mapping[str, str]) -> int:
    """Size of a process's shared libraries, or more than any bound when the system does not say."""
    words = status.get("VmLib", "").split()
    return int(words[0]) if words else _STATIC_KIB


def _mapped_files(maps: str, device: int) -> frozenset[tuple[int, int]]:
    numbers = (os.major(device), os.minor(device))
    return frozenset(
        (device, int(inode))
        for major, minor, inode in _MAPPING.findall(maps)
        if (int(major, 16), int(minor, 16)) == numbers
    )


def _open_files(pid: int, device: int) -> frozenset[tuple[int, int]]:
    opened = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed while we looked
            found = os.stat(f"/proc/{pid}/fd/{number}")
            if found.st_dev == device:
                opened.add((found.st_dev, found.st_ino))
    return frozenset(opened)


def mounted_devices(pid: int | str = "self") -> frozenset[int] | None:
    """Return the file systems that a process can reach by a path, or None when its mounts may not be read.

    Raises:
        ProcessLookupError: it has ended, or is about to and has no mounts any more.
    """
    lines = _mounts(pid)
    if lines is None:
        return None
    # A mount on the very mount point of another hides it: its parent is the hidden one.
    points = {line[0]: line[4] for line in lines}
    hidden = {line[1] for line in lines if points.get(line[1]) == line[4] and line[0] != line[1]}
    numbers = (line[2].split(":") for line in lines if line[0] not in hidden)
    return frozenset(os.makedev(int(major), int(minor)) for major, minor in numbers)


def _mounts(pid: int | str) -> list[list[str]] | None:
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as file:
            return [line.split() for line in file]
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ESRCH):  # the first: while it exits
            raise ProcessLookupError(f"there is no process {pid}") from None
        return None


def sees_every_process(device: int, uid: int) -> str:
    """Return why processes may exist that reach the file system and cannot be seen; empty when none can.

    Args:
        device: the file system.
        uid: user whose processes matter.
    """
    mounts = _mounts("self") or []
    hiding = any(line[4] == "/proc" and re.search(r"hidepid=(?!0|off)", " ".join(line)) for line in mounts)
    if hiding and os.geteuid() not in (0, uid):
        return f"/proc hides the processes of user {uid}"
    own = any(line[2] == f"{os.major(device)}:{os.minor(device)}" and _OWN_MOUNT in line for line in mounts)
    if own or os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE:
        return ""
    return "this container shows its own processes only, and its shared memory may be shared with others"
