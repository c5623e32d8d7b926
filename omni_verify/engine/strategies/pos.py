"""POS: partial order sampling."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.ops import dependent
from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Sampler

__all__ = ["POS"]


class POS(Sampler):
    """Give every pending operation a random priority, run the highest, redraw those that race with it.

    Yuan, Yang, Gu, "Partial Order Aware Concurrency Sampling" (CAV 2018): samples partial orders more
    evenly than a random walk samples schedules; a program whose operations are all independent needs
    one execution, and a bug that needs one order of k operations on an object is found with at least
    the probability that random priorities give this order.
    """

    name = "pos"

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        self.count += 1
        if len(options) > ready:
            timer = self.early(options, ready)
            if timer >= 0:
                return timer
        draw = self.random
        best, at = -1.0, 0
        for i in range(ready):
            prio = options[i].prio
            if prio is None:
                prio = options[i].prio = draw()
            if prio > best:
                best, at = prio, i
        chosen = options[at]
        chosen.prio = None  # its next operation gets a new one
        for i in range(ready):
            other = options[i]
            if other.obj is chosen.obj and dependent(chosen, other):
                other.prio = None
        return at
