"""Coarse POS: partial order sampling over synchronisation operations alone."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.pos import POS

__all__ = ["CoarsePOS"]


class CoarsePOS(POS):
    """Sample as POS does, but never switch at a shared access while its task can go on.

    At granularity ``access`` most decisions are accesses, and a bug between two critical sections (a node
    that was freed and used again, a value read between two stages) needs long stretches without a switch,
    which POS grants rarely. At the coarser granularities it is POS.
    """

    name = "coarse"

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        if current.site:
            for i in range(ready):
                if options[i] is current:
                    return i
        return super().pick(options, current, ready)
