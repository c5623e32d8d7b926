"""How one thread choice is written on the tape, and read back.

``options`` are the enabled tasks by ascending id, followed by the tasks whose timer may fire early;
``ready`` counts the first group. Code 0 is "continue the current task" when it is enabled; the other
options keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.engine.control.task import Task

__all__ = ["decode", "encode"]


def encode(index: int, options: Sequence[Task], current: Task, ready: int) -> int:
    """Code of choosing ``options[index]``."""
    for at in range(ready):
        if options[at] is current:
            if index == at:
                return 0
            return index + 1 if index < at else index
    return index


def decode(code: int, options: Sequence[Task], current: Task, ready: int) -> int:
    """Index into ``options`` of a code below ``len(options)``; the inverse of `encode`."""
    for at in range(ready):
        if options[at] is current:
            if code == 0:
                return at
            return code - 1 if code <= at else code
    return code
