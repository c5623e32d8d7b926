"""Cleanup removes the segment and forgets the lock file.

One empty file for each chunk of each aborted request.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M35b",
    breaks=("I27", "I22"),
    source="vllm-omni#4349",
    summary="cleanup removes the segment and forgets the lock file",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._remove",
        ("        lock.remove()\n", ""),
    )
