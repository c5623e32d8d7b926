"""Removes proven orphans, and nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator

import msgspec

from omni_verify.audit.inventory import Item, look_at, take_inventory
from omni_verify.audit.judgement import Finding, Judge, Judgement
from omni_verify.audit.live_audit import Scope, prepare
from omni_verify.audit.server_trees import ServerTrees
from omni_verify.contracts import keys

__all__ = ["Removal", "clean"]

_BUSY = (-1, -1)
# Segments before their lock files, so that a connector that comes meanwhile meets a lock; journals after what
# they note; directories last.
_ORDER = ("segment", "lock", "fifo", "spare", "owner", "wake")


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one orphan; `kept` says why it is still there, and is empty when it was removed."""

    name: str
    kept: str = ""


def clean(findings: Iterable[Finding], scope: Scope, trees: ServerTrees | None = None) -> tuple[Removal, ...]:
    """Remove orphans; each is looked at and judged anew right before it goes.

    The inode must still be the judged one, the judgement must still be orphan, and segment and lock file go
    under the key's lock, which is never waited for. Others than orphans are refused.

    Raises:
        ValueError: a finding is not an orphan.
    """
    orphans = list(findings)
    if any(f.judgement is not Judgement.ORPHAN for f in orphans):
        raise ValueError("only proven orphans can be removed")
    orphans.sort(key=lambda f: (_ORDER.index(f.item.meaning.kind), f.item.name))
    return tuple(Removal(name=f.item.name, kept=_remove(f.item, scope, trees)) for f in orphans)


def _remove(item: Item, scope: Scope, trees: ServerTrees | None) -> str:
    with _key_lock(item, scope.root) as lock:
        if lock is _BUSY:
            return "its lock is held"
        inventory = take_inventory(scope.root)
        now = look_at(scope.root, item.name)
        if now is None:
            return "it has vanished"
        if now.identity != item.identity:
            return "it was replaced by another file of the same name"
        judge = prepare(inventory, scope, trees, held_by_us=lock)
        if why := _reason_to_keep(now, judge):
            return why
        try:
            path = os.path.join(scope.root, item.name)
            (os.rmdir if item.meaning.kind == "wake" else os.unlink)(path)
        except OSError as error:
            return f"it cannot be removed: {error.strerror}"
    return ""


def _reason_to_keep(item: Item, judge: Judge) -> str:
    if item.meaning.kind == "owner":
        for other in judge.inventory.items:
            if other.meaning.kind == "lock" and item.name in judge.notes_of(other):
                return f"it still notes {other.name}"
    finding = judge.finding(item)
    return "" if finding.judgement is Judgement.ORPHAN else f"now {finding.judgement}: {finding.reasons[0]}"


@contextlib.contextmanager
def _key_lock(item: Item, root: str) -> Iterator[tuple[int, int] | None]:
    """Hold the lock of a segment's or lock file's key; yields the lock file's identity, None without one.

    Yields `_BUSY` when somebody else holds it.
    """
    try:
        if not item.meaning.key:
            raise FileNotFoundError
        path = os.path.join(root, keys.lock_name(item.meaning.key))
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
    except BlockingIOError:
        yield _BUSY
    else:
        yield found.st_dev, found.st_ino
    finally:
        os.close(fd)
