"""Process trees of servers, followed over time: who belongs to them, and who certainly does not."""

from __future__ import annotations

from collections.abc import Iterable

from omni_verify.audit.neighbours import Neighbour, Neighbours

__all__ = ["ServerTrees", "descendants"]


class ServerTrees:
    """The trees below some processes.

    A child whose parent dies is handed to another process, so a tree can be told only while it lives: it is
    recorded at every `update`. For the same reason a process that starts later, and cannot be assigned, may
    belong to it. Only what already lived outside the trees when all their roots were seen alive at the first
    `update` is a stranger, and only if some member of the trees was once seen to be able to run a connector:
    the pid of a shell that has left its server to itself says nothing.

    Args:
        roots: pids of the servers.
    """

    def __init__(self, roots: Iterable[int]) -> None:
        self.roots = tuple(dict.fromkeys(roots))
        self.members: dict[tuple[int, int], Neighbour] = {}
        self.is_complete = self.is_server = False
        self._strangers: frozenset[tuple[int, int]] = frozenset()
        self._updates = 0

    def update(self, neighbours: Neighbours, *, are_known: bool = True) -> None:
        """Record who belongs to the trees now.

        Args:
            neighbours: all living processes.
            are_known: it was looked up what they have loaded.
        """
        known = [pid for pid, n in neighbours.items() if n.identity in self.members]
        roots = known if self._updates else [*known, *self.roots]
        for pid in descendants(roots, neighbours):
            self.members[neighbours[pid].identity] = neighbours[pid]
            self.is_server |= are_known and neighbours[pid].can_run
        if not self._updates and all(pid in neighbours for pid in self.roots):
            self.is_complete = True
            self._strangers = frozenset(
                n.identity for n in neighbours.values() if n.identity not in self.members
            )
        self._updates += 1

    def alive(self, neighbours: Neighbours) -> list[Neighbour]:
        """Return the members that live."""
        return [n for n in neighbours.values() if n.identity in self.members]

    def is_stranger(self, neighbour: Neighbour) -> bool:
        """Tell whether the process is certainly in none of the trees."""
        return self.is_complete and self.is_server and neighbour.identity in self._strangers


def descendants(roots: Iterable[int], neighbours: Neighbours) -> set[int]:
    """Return those of the roots that live, and every living process below them."""
    found: set[int] = set()
    border = [pid for pid in roots if pid in neighbours]
    while border:
        found.update(border)
        border = [n.pid for n in neighbours.values() if n.parent in border and n.pid not in found]
    return found
