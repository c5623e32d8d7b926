"""Judges what lies in shared memory: live, unread, orphan or foreign, with the reasons.

The rule
========

A file of the key grammar is

**live** if somebody has it now: a living process has this very inode mapped or open, a crash journal's
record lock is held (its sender's spares are live with it), a FIFO has a reader, the other half of the key
(segment, lock file) is live, or a wake directory holds something live;

**unread** if nobody has it now, but it is not proven that nobody ever will. The real connector closes a
segment as soon as it is written, so a chunk that waits for its consumer looks like one that was abandoned;

**orphan** if all of these hold:

1. nobody has it (above);
2. nobody is left who could read or remove it: every living process is ruled out as a *participant*. It is
   ruled out if it does not run under the file's user, or does not reach this file system by a path, or has
   loaded neither torch nor posix_ipc and is no resource tracker. A process that may not be read is ruled out
   by its user, its mounts or because it is statically linked, which everybody may see, and not otherwise;
3. every process that could matter can be seen at all (no container, no ``hidepid``);
4. it is certainly a chunk's: a segment has its lock file beside it, or a journal names it. The connectors
   make the lock file first and remove it last.

Age proves nothing, neither way. What a journal or a wake directory records of the dead (sender, launcher) is
told as a reason; it does not replace 2, since the consumer may outlive its sender.

With server trees followed from before their death (`ServerTrees`) *and* a key prefix, the caller states that
what has the prefix is theirs. Processes that already lived outside the trees then do not count for 2.

Sources: article section 9 (foreign files), I51 and I53, W28.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from omni_verify.audit.inventory import Inventory, Item
from omni_verify.audit.neighbours import Neighbour, Neighbours, sees_every_process
from omni_verify.audit.owner_files import OwnerFile, has_reader, read_owner_file
from omni_verify.audit.server_trees import ServerTrees
from omni_verify.contracts import keys

__all__ = ["Finding", "Holder", "Judge", "Judgement"]

_TOLD = 4


class Judgement(StrEnum):
    """See the module; `FOREIGN` files are named and never touched."""

    LIVE = "live"
    UNREAD = "unread"
    ORPHAN = "orphan"
    FOREIGN = "foreign"


class Holder(msgspec.Struct, frozen=True, order=True):
    """A process that has a file; `how` is ``mapped`` or ``open``."""

    pid: int
    name: str
    how: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One file and what is thought of it; `reasons` are sentences, the deciding one first."""

    item: Item
    judgement: Judgement
    reasons: tuple[str, ...]
    holders: tuple[Holder, ...] = ()


class Judge:
    """Judges the files of one inventory against the processes of one moment.

    The inventory must be older than the processes: then whoever made a file of it was seen, or is dead.

    Args:
        trees: trees that were followed, or None.
        are_theirs: the caller states that the inventory's files belong to the trees (a prefix was given).
        sees_all: the caller states that no process outside its view uses the directory.
    """

    def __init__(
        self,
        inventory: Inventory,
        neighbours: Neighbours,
        *,
        trees: ServerTrees | None = None,
        are_theirs: bool = False,
        sees_all: bool = False,
    ) -> None:
        self.inventory, self.neighbours, self.trees = inventory, neighbours, trees
        self._are_theirs, self._sees_all = are_theirs, sees_all
        self._by_name = {item.name: item for item in inventory.items}
        self.journals = _journals(inventory)
        self._readers = {i.name: has_reader(_path(inventory, i)) for i in inventory.items if _is_fifo(i)}
        self._holders = _holders(neighbours)
        self._possible: dict[tuple[int, int], list[Neighbour]] = {}
        self._unseen: dict[tuple[int, int], str] = {}

    def judge(self) -> tuple[Finding, ...]:
        """Judge every file, in the order of the inventory."""
        return tuple(self.finding(item) for item in self.inventory.items)

    def finding(self, item: Item) -> Finding:
        """Judge one file of the inventory."""
        holders = self.holders_of(item)
        if alive := self._signs_of_life(item, holders):
            return Finding(item=item, judgement=Judgement.LIVE, reasons=alive, holders=holders)
        doubts = [*self._doubts(item)]
        facts = self._facts(item)
        if doubts:
            return Finding(item=item, judgement=Judgement.UNREAD, reasons=(*doubts, *facts))
        proof = (
            "nobody has it open or mapped, and nobody is left who could take part: "
            f"no process of user {item.uid} that reaches it has torch or posix_ipc loaded"
        )
        return Finding(item=item, judgement=Judgement.ORPHAN, reasons=(proof, *facts))

    def holders_of(self, item: Item) -> tuple[Holder, ...]:
        """Return who has exactly this file mapped or open."""
        return tuple(sorted(self._holders.get(item.identity, ())))

    def notes_of(self, item: Item) -> dict[str, OwnerFile]:
        """Return the journals, by name, that note the put which made this lock file or segment."""
        lock = self._by_name.get(keys.lock_name(item.meaning.key)) if item.meaning.key else None
        if lock is None:
            return {}
        return {
            name: journal
            for name, journal in self.journals.items()
            if lock.inode in journal.notes.get(item.meaning.key, ())
        }

    # -- live ------------------------------------------------------------------------------------

    def _signs_of_life(self, item: Item, holders: tuple[Holder, ...]) -> tuple[str, ...]:
        if holders:
            return (f"in use: {_tell(f'{h.how} by {h.pid} ({h.name})' for h in holders)}",)
        kind = item.meaning.kind
        if kind == "owner" and self.journals[item.name].is_held:
            return (f"its sender, process {item.meaning.pid}, lives and holds its lock",)
        if kind == "spare" and self._senders_life(item):
            return (f"its sender, process {item.meaning.pid}, lives and keeps it for its next segment",)
        if kind == "fifo" and self._readers[item.name]:
            return (f"a receiver of stage {item.meaning.stage} has it open",)
        if kind == "wake":
            inside = [i for i in self.inventory.items if i.name.startswith(f"{item.name}/")]
            living = [i.name.rpartition("/")[2] for i in inside if self._signs_of_life(i, self.holders_of(i))]
            return (f"the launch lives: {_tell(living)}",) if living else ()
        other = self._other_half(item)
        if other is not None and (found := self.holders_of(other)):
            return (f"its {other.meaning.kind} is in use by {_tell(str(h.pid) for h in found)}",)
        return ()

    def _senders_life(self, spare: Item) -> bool | None:
        """Tell by the journals beside a spare whether its sender lives; None when they cannot be read."""
        directory = spare.name.rpartition("/")[0]
        lives = [
            self.journals[item.name].is_held
            for item in self.inventory.items
            if item.meaning.kind == "owner"
            and item.meaning.pid == spare.meaning.pid
            and item.name.startswith(f"{directory}/")
        ]
        return True if True in lives else None if None in lives else False

    def _other_half(self, item: Item) -> Item | None:
        key = item.meaning.key
        return self._by_name.get(keys.lock_name(key) if item.meaning.kind == "segment" else key)

    # -- why it may not be an orphan -------------------------------------------------------------

    def _doubts(self, item: Item) -> Iterable[str]:
        possible = self._participants(item)
        if possible:
            count = f"{len(possible)} processes" if len(possible) > 1 else "a process"
            who = _tell(f"{n.pid} ({n.name}{', unreadable' if n.unread else ''})" for n in possible)
            yield f"nobody has it open, but {count} could still read or remove it: {who}"
        if unseen := self._unseen_processes(item):
            yield f"not proven to be abandoned: {unseen}"
        if item.meaning.kind == "segment" and not self._is_certain(item):
            yield "not certain to be a chunk: it has no lock file and no journal names it"
        if item.meaning.kind == "wake":
            inside = [i for i in self.inventory.items if i.name.startswith(f"{item.name}/")]
            doubtful = [i for i in inside if any(True for _ in self._doubts(i))]
            odd = [n for n in self.inventory.foreign if n.startswith(f"{item.name}/")]
            if doubtful or odd:
                yield f"it holds {len(doubtful) + len(odd)} files that are not proven to be abandoned"

    def _participants(self, item: Item) -> list[Neighbour]:
        who = item.device, item.uid
        if who not in self._possible:
            self._possible[who] = [
                n
                for n in self.neighbours.values()
                if n.could_take_part(*who)
                and not (self._are_theirs and self.trees is not None and self.trees.is_stranger(n))
            ]
        return self._possible[who]

    def _unseen_processes(self, item: Item) -> str:
        who = item.device, item.uid
        if who not in self._unseen:
            self._unseen[who] = "" if self._sees_all else sees_every_process(*who)
        return self._unseen[who]

    def _is_certain(self, item: Item) -> bool:
        noted = any(item.meaning.key in journal.notes for journal in self.journals.values())
        return noted or self._other_half(item) is not None

    # -- what else is known ----------------------------------------------------------------------

    def _facts(self, item: Item) -> list[str]:
        kind, pid = item.meaning.kind, item.meaning.pid
        facts = []
        if kind == "segment":
            facts.append(f"its {item.size} bytes were not read" if item.size else "it holds nothing yet")
        if kind == "lock" and self._other_half(item) is None:
            facts.append("it has no segment: a put failed, or its segment was unlinked without it")
        for name, journal in self.notes_of(item).items():
            sender = self._by_name[name].meaning.pid
            if journal.is_held is not None:
                facts.append(f"put by process {sender}, which {'lives' if journal.is_held else 'is dead'}")
        if kind == "owner" and self.journals[item.name].is_held is False:
            facts.append(f"its sender, process {pid}, is dead: the record lock is free")
        if kind == "spare" and self._senders_life(item) is False:
            facts.append(f"its sender, process {pid}, is dead")
        if kind == "fifo" and self._readers[item.name] is False:
            facts.append("no process reads it")
        if kind == "wake" and pid is not None:
            lives = pid in self.neighbours and self.neighbours[pid] in self._participants(item)
            facts.append(f"its launcher, process {pid}, {'lives' if lives else 'is dead'}")
        if self.trees is not None and self._are_theirs and not self.trees.alive(self.neighbours):
            facts.append(f"the tree of {_tell(map(str, self.trees.roots))} is dead")
        return facts


def _journals(inventory: Inventory) -> dict[str, OwnerFile]:
    return {
        item.name: read_owner_file(_path(inventory, item), item.meaning.pid or 0)
        for item in inventory.items
        if item.meaning.kind == "owner"
    }


def _holders(neighbours: Mapping[int, Neighbour]) -> dict[tuple[int, int], list[Holder]]:
    table: dict[tuple[int, int], list[Holder]] = {}
    for n in neighbours.values():
        for how, files in (("mapped", n.mapped), ("open", n.opened - n.mapped)):
            for identity in files:
                table.setdefault(identity, []).append(Holder(n.pid, n.name, how))
    return table


def _is_fifo(item: Item) -> bool:
    return item.meaning.kind == "fifo"


def _path(inventory: Inventory, item: Item) -> str:
    return os.path.join(inventory.root, item.name)


def _tell(words: Iterable[str]) -> str:
    told = list(words)
    more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return ", ".join(told[:_TOLD]) + more
