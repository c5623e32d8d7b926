"""What lies in the shared-memory directory: segments, lock files, FIFOs, journals, and the rest.

A name belongs to a run when it follows the key grammar of `contracts.keys` and its key starts with the run's
prefix. Everything else is foreign: it is reported by name and never touched (I51, article section 9).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator

import msgspec

from omni_verify.contracts import keys
from omni_verify.errors import UsageError

__all__ = ["Entry", "Listing", "scan", "sweep"]


class Entry(msgspec.Struct, frozen=True, order=True):
    """One file.

    Attributes:
        name: path below the scanned folder.
        kind: ``segment``, ``lock``, ``fifo``, ``owner``, ``spare`` or ``wake`` (a wake directory).
        key: file name of the transfer key it stands for; empty for the last four kinds.
        size: bytes.
        age_s: seconds since its content or its directory entry changed last.
        inode: inode number; tells a file from a later one of the same name.
    """

    name: str
    kind: str
    key: str
    size: int
    age_s: float
    inode: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What one scan found; names are sorted.

    `foreign` holds the names that do not belong to the run (other programs', ``psm_*``, ``sem.*``).
    """

    prefix: str
    entries: tuple[Entry, ...] = ()
    foreign: tuple[str, ...] = ()

    def select(self, kind: str) -> tuple[Entry, ...]:
        """Return the entries of one kind."""
        return tuple(e for e in self.entries if e.kind == kind)

    def names(self, kind: str) -> tuple[str, ...]:
        """Return what entries of one kind are about, without the run's prefix: keys, or file names."""
        return tuple(sorted((e.key or e.name).replace(self.prefix, "", 1) for e in self.select(kind)))

    def __bool__(self) -> bool:
        return bool(self.entries)


def scan(prefix: str = "", root: str = keys.SHM_ROOT, *, launchers: Iterable[int] = ()) -> Listing:
    """List what belongs to a run.

    Args:
        prefix: start of every external id of the run. Empty takes every name that reads as a chunk key, every
            lock file and every wake directory: right in a private mount namespace, or for a live audit.
        root: the shared-memory directory.
        launchers: parents of the run's stage processes, whose wake directories count too. With a prefix, the
            wake directory of that ``wakeup_scope`` always counts, and no other.
    """
    wakes = {os.path.basename(keys.wake_directory(os.getuid(), pid)) for pid in launchers}
    if prefix:
        wakes.add(os.path.basename(keys.wake_directory(os.getuid(), 0, prefix)))
    entries: list[Entry] = []
    foreign: list[str] = []
    for name in sorted(os.listdir(root)):
        if keys.WAKE_DIRECTORY_PATTERN.fullmatch(name):
            found = list(_inside_wake(root, name)) if not prefix or name in wakes else []
        else:
            found = list(_entry(root, name, *_kind_and_key(name, prefix)))
        entries += found
        if not found:
            foreign.append(name)
    return Listing(prefix=prefix, entries=tuple(entries), foreign=tuple(foreign))


def sweep(prefix: str, root: str = keys.SHM_ROOT) -> tuple[str, ...]:
    """Remove what `scan` finds for the run and return the names; for tear-down, after the verdict.

    Raises:
        UsageError: empty prefix, which would take in other programs' files.
    """
    if not prefix:
        raise UsageError("refusing to sweep without a prefix: name the run whose files are to be removed.")
    removed = []
    # Contents of a wake directory sort behind the directory itself: the reverse order empties it first.
    for entry in sorted(scan(prefix, root).entries, reverse=True):
        with contextlib.suppress(OSError):
            path = os.path.join(root, entry.name)
            (os.rmdir if entry.kind == "wake" else os.unlink)(path)
            removed.append(entry.name)
    return tuple(sorted(removed))


def _kind_and_key(name: str, prefix: str) -> tuple[str, str]:
    locked = keys.key_of_lock_name(name)
    key = name if locked is None else locked
    kind = "segment" if locked is None else "lock"
    if prefix:
        is_ours = key.startswith((prefix, keys.ESCAPED_PREFIX + prefix))
    else:
        is_ours = locked is not None or key.startswith(keys.ESCAPED_PREFIX) or _is_chunk_key(key)
    return (kind, key) if is_ours else ("", "")


def _is_chunk_key(name: str) -> bool:
    try:
        keys.parse_key(name)
    except UsageError:
        return False
    return True


def _inside_wake(root: str, directory: str) -> Iterator[Entry]:
    yield from _entry(root, directory, "wake", "")
    with contextlib.suppress(OSError):  # it may vanish, or belong to another user
        for name in sorted(os.listdir(os.path.join(root, directory))):
            kind = "fifo"  # the grammar's names read as a FIFO's too
            if keys.OWNER_PATTERN.fullmatch(name):
                kind = "owner"
            elif keys.SPARE_PATTERN.fullmatch(name):
                kind = "spare"
            yield from _entry(root, f"{directory}/{name}", kind, "")


def _entry(root: str, name: str, kind: str, key: str) -> Iterator[Entry]:
    """Yield the entry, or nothing when it is foreign or has vanished since it was listed."""
    if not kind:
        return
    try:
        found = os.lstat(os.path.join(root, name))
    except OSError:
        return
    if kind in ("segment", "lock") and not stat.S_ISREG(found.st_mode):
        return
    age = max(0.0, time.time() - found.st_ctime)
    yield Entry(name, kind, key, found.st_size, age, found.st_ino)
