"""The partial order of a scenario: enforced at the gates, then verified against the trace."""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterable

from omni_verify.engine.points import PointRef
from omni_verify.errors import UsageError
from omni_verify.trace.event import Trace

__all__ = ["PartialOrder"]


class PartialOrder:
    """A set of edges ``a < b`` over point references.

    Enforcement and verification are separate on purpose: a gate that was bypassed, or a point that
    nobody reached, shows in the trace and makes the verdict inconclusive.
    """

    def __init__(self) -> None:
        self.edges: list[tuple[PointRef, PointRef]] = []

    def add(self, *chains: str) -> None:
        """Add chains such as ``"put.enter(R_1_0) < abort.enter(R) < put.exit(R_1_0)"``.

        Raises:
            UsageError: a chain does not parse, or the order would become cyclic; then nothing is added.
        """
        edges = list(self.edges)
        for chain in chains:
            refs = [PointRef.parse(part) for part in chain.split("<")]
            if len(refs) < 2:
                raise UsageError(f"an order needs at least two points joined by '<', got {chain!r}.")
            edges += itertools.pairwise(refs)
        cycle = _cycle(edges)
        if cycle:
            raise UsageError(f"the declared order is cyclic: {' < '.join(map(str, cycle))}.")
        self.edges = edges

    def blockers(self, actor: str, point: str, key: str, trace: Trace) -> list[PointRef]:
        """Return the predecessors that must still happen before this actor may pass this point."""
        missing = []
        for before, after in self.edges:
            if not after.matches(actor, point, key):
                continue
            if after.count(trace) + 1 == after.nth and before.find(trace) is None:
                missing.append(before)
        return missing

    def unobserved(self, trace: Trace) -> list[str]:
        """Return the edges that the trace does not show, as text; empty when all were observed."""
        missing = []
        for before, after in self.edges:
            first, second = before.find(trace), after.find(trace)
            if first is None or second is None or first.seq >= second.seq:
                missing.append(f"{before} < {after}")
        return missing

    def texts(self) -> list[str]:
        """Return the edges as text, in the order of declaration."""
        return [f"{a} < {b}" for a, b in self.edges]

    def refs(self) -> list[PointRef]:
        """Return every reference once."""
        return list(dict.fromkeys(ref for edge in self.edges for ref in edge))


def _cycle(edges: Iterable[tuple[PointRef, PointRef]]) -> list[PointRef]:
    """Return the points of a cycle, first and last the same; empty when there is none."""
    sorter: graphlib.TopologicalSorter[PointRef] = graphlib.TopologicalSorter()
    for before, after in edges:
        sorter.add(after, before)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []
