"""One look at a host: what lies in shared memory, who has it, and what is left behind."""

from __future__ import annotations

import os
from collections import Counter

import msgspec

from omni_verify.audit.inventory import Inventory, Item, take_inventory
from omni_verify.audit.judgement import Finding, Judge, Judgement
from omni_verify.audit.neighbours import look_around
from omni_verify.audit.owner_files import OwnerFile
from omni_verify.audit.server_trees import ServerTrees
from omni_verify.contracts import keys
from omni_verify.contracts.keys import SHM_ROOT

__all__ = ["Audit", "Scope", "Unreadable", "take_audit"]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit is about.

    Attributes:
        root: the shared-memory directory.
        prefix: start of the external ids; empty takes every request's. A wake directory has no request: with
            a prefix it counts if it is named after that ``wakeup_scope`` or after a followed server, or holds
            the journal of a put with the prefix.
        sees_all: states that no process outside the caller's view uses the directory.
    """

    root: str = SHM_ROOT
    prefix: str = ""
    sees_all: bool = False


class Unreadable(msgspec.Struct, frozen=True):
    """A process whose mappings or descriptors may not be read."""

    pid: int
    name: str
    reason: str


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found.

    Attributes:
        findings: every file of the grammar in scope, by name.
        foreign: names that are not of the grammar; never touched.
        out_of_scope: number of files of the grammar that do not have the prefix.
        unreadable: processes that may have files open without our seeing it.
        trees: living members of the followed trees, by pid.
    """

    root: str
    prefix: str
    findings: tuple[Finding, ...]
    foreign: tuple[str, ...] = ()
    out_of_scope: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    trees: dict[int, str] = {}

    def count(self, judgement: Judgement) -> int:
        """Return how many files are judged so; foreign ones are counted by name."""
        if judgement is Judgement.FOREIGN:
            return len(self.foreign)
        return Counter(f.judgement for f in self.findings)[judgement]

    @property
    def orphans(self) -> tuple[Finding, ...]:
        """The findings that are proven orphans."""
        return tuple(f for f in self.findings if f.judgement is Judgement.ORPHAN)


def take_audit(scope: Scope | None = None, trees: ServerTrees | None = None) -> Audit:
    """Look once and judge; files first and processes after, as `Judge` needs it.

    Raises:
        TargetUnusableError: the directory cannot be listed.
    """
    scope = scope or Scope()
    judge = prepare(take_inventory(scope.root), scope, trees)
    chosen = [item for item in judge.inventory.items if _in_scope(item, judge, scope, trees)]
    return Audit(
        root=scope.root,
        prefix=scope.prefix,
        findings=tuple(map(judge.finding, chosen)),
        foreign=judge.inventory.foreign,
        out_of_scope=len(judge.inventory.items) - len(chosen),
        unreadable=tuple(Unreadable(n.pid, n.name, n.unread) for n in judge.neighbours.values() if n.unread),
        trees={n.pid: n.name for n in trees.alive(judge.neighbours)} if trees else {},
    )


def prepare(
    inventory: Inventory,
    scope: Scope,
    trees: ServerTrees | None,
    *,
    held_by_us: tuple[int, int] | None = None,
) -> Judge:
    """Look at the processes, after the files, and return who judges these by those.

    Args:
        held_by_us: identity of a file that only the caller's audit has open.
    """
    neighbours = look_around(os.stat(scope.root).st_dev)
    if held_by_us is not None and (us := neighbours.get(os.getpid())) is not None:
        neighbours[us.pid] = msgspec.structs.replace(us, opened=us.opened - {held_by_us})
    if trees is not None:
        trees.update(neighbours)
    return Judge(inventory, neighbours, trees=trees, are_theirs=bool(scope.prefix), sees_all=scope.sees_all)


def _in_scope(item: Item, judge: Judge, scope: Scope, trees: ServerTrees | None) -> bool:
    prefix = scope.prefix
    if not prefix or has_prefix(item.meaning.key, prefix):
        return True
    directory = item.name.partition("/")[0]
    if item.meaning.key or not keys.WAKE_DIRECTORY_PATTERN.fullmatch(directory):
        return False
    launchers = {pid for pid, _ in trees.members} | set(trees.roots) if trees else set()
    names = [keys.wake_directory(item.uid, pid) for pid in launchers]
    names.append(keys.wake_directory(item.uid, 0, prefix))
    return directory in map(os.path.basename, names) or any(
        _notes_prefix(journal, prefix)
        for name, journal in judge.journals.items()
        if name.startswith(f"{directory}/")
    )


def has_prefix(key: str, prefix: str) -> bool:
    """Tell whether a key's file name is of an external id with the prefix."""
    return key.startswith((prefix, keys.ESCAPED_PREFIX + prefix))


def _notes_prefix(journal: OwnerFile, prefix: str) -> bool:
    return any(has_prefix(name, prefix) for name in journal.notes)
