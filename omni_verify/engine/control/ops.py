"""Which operations commute: the one table that partial-order strategies rely on."""

from __future__ import annotations

from omni_verify.engine.control.task import Task

__all__ = ["READS", "dependent"]

# Operations that leave their object as it is. Everything else counts as a write.
READS = frozenset(
    {
        "load",
        "len",
        "in",
        "iter",
        "read",
        "item",
        "is_set",
        "locked",
        "empty",
        "full",
        "qsize",
        "is_alive",
        "join",
    }
)


def dependent(a: Task, b: Task) -> bool:
    """Whether the order of the published operations of two tasks can matter."""
    if a.obj is not b.obj or (a.obj is None and a.key != b.key):
        return False
    if a.kind in READS and b.kind in READS:
        return False
    # Attributes of one object are separate locations; an operation without a key is on the whole object.
    return a.key == b.key or a.key is None or b.key is None
