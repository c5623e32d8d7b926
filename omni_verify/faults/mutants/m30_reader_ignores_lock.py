"""A reader takes a segment although its writer holds the lock.

Half of an object is read, and destroyed.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M30",
    breaks=("I18",),
    source="article section 2.4",
    summary="a reader takes a segment although its writer holds the lock",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._take",
        (
            ('    if lock is None:\n        return b""'),
            ('    if lock is None:\n        return shm_read_bytes({"name": name})'),
        ),
    )
