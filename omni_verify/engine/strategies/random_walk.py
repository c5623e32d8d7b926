"""Random walk: every decision is uniform over the enabled tasks."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.task import Task
from omni_verify.engine.strategies.base import Sampler

__all__ = ["RandomWalk"]


class RandomWalk(Sampler):
    """Choose uniformly among the enabled tasks.

    No published guarantee beyond "every schedule has positive probability"; the schedule bounding study
    (Thomson, Donaldson, Betts, PPoPP 2014) found it at least as effective as bounding on shallow bugs.
    """

    name = "random"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.uniform = self.random

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        if len(options) > ready:
            self.count = len(current.sched.tape)  # most decisions do not come here
            timer = self.early(options, ready)
            if timer >= 0:
                return timer
        return int(self.random() * ready)
