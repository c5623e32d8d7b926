"""Every file of the key grammar in the shared-memory directory, with its identity: device and inode."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

import msgspec

from omni_verify.audit.meaning import Meaning, meaning_of
from omni_verify.contracts.keys import SHM_ROOT
from omni_verify.errors import TargetUnusableError

__all__ = ["Inventory", "Item", "look_at", "take_inventory"]

_TYPES = {
    "segment": stat.S_ISREG,
    "lock": stat.S_ISREG,
    "owner": stat.S_ISREG,
    "spare": stat.S_ISREG,
    "fifo": stat.S_ISFIFO,
    "wake": stat.S_ISDIR,
}


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One file.

    Attributes:
        name: path below the scanned folder.
        meaning: what the name says.
        size: bytes.
        age_s: seconds since its content or its directory entry changed last; shown, never judged by.
        uid: user that owns it.
        device, inode: its identity; a later file of the same name has another.
    """

    name: str
    meaning: Meaning
    size: int
    age_s: float
    uid: int
    device: int
    inode: int

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found, by name; `foreign` are the names that are not of the grammar."""

    root: str
    items: tuple[Item, ...]
    foreign: tuple[str, ...]


def take_inventory(root: str = SHM_ROOT) -> Inventory:
    """List the directory and its wake directories; what vanishes meanwhile is left out.

    A file counts only if its type is the one that the grammar gives its name, and a wake directory only if it
    belongs to the user in its name.

    Raises:
        TargetUnusableError: the directory cannot be listed.
    """
    try:
        names = sorted(os.listdir(root))
    except OSError as error:
        raise TargetUnusableError(f"cannot list {root}: {error.strerror}.") from error
    items: list[Item] = []
    foreign: list[str] = []
    for name in names:
        item = look_at(root, name)
        if item is None:
            foreign.append(name)
            continue
        items.append(item)
        if item.meaning.kind == "wake":
            for inner in _names_in(root, name):
                found = look_at(root, inner)
                foreign.append(inner) if found is None else items.append(found)
    there = tuple(name for name in foreign if os.path.lexists(os.path.join(root, name)))
    return Inventory(root=root, items=tuple(items), foreign=there)


def look_at(root: str, name: str) -> Item | None:
    """Return the file of that name, or None when it is foreign or has vanished."""
    meaning = meaning_of(name)
    if meaning is None:
        return None
    try:
        found = os.lstat(os.path.join(root, name))
    except OSError:
        return None
    if not _TYPES[meaning.kind](found.st_mode) or meaning.uid not in (None, found.st_uid):
        return None
    return Item(
        name=name,
        meaning=meaning,
        size=found.st_size if meaning.kind in ("segment", "owner", "spare") else 0,
        age_s=max(0.0, time.time() - found.st_ctime),
        uid=found.st_uid,
        device=found.st_dev,
        inode=found.st_ino,
    )


def _names_in(root: str, directory: str) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it may vanish, or belong to another user
        yield from (f"{directory}/{name}" for name in sorted(os.listdir(os.path.join(root, directory))))
