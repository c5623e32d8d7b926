"""The result of shrinking, and what makes one failing schedule better than another."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Minimised"]


@dataclass(frozen=True, slots=True)
class Minimised:
    """The shortest failing tape found.

    Attributes:
        tape: choices, without zeros at the end.
        preemptions: switches away from a task that could go on.
        switches: choices that deviate from "continue" or "lowest id".
        steps: operations of the run.
        reruns: executions that the search took.
    """

    tape: list[int]
    preemptions: int
    switches: int
    steps: int
    reruns: int

    @property
    def cost(self) -> tuple[int, int, int]:
        """What is minimised, in this order."""
        return self.preemptions, self.switches, self.steps
