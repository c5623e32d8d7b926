"""Collecting a connector closes it.

Chunks that nobody has read yet are unlinked behind their receiver's back.
"""

from omni_verify.faults.mutants.mutant import Mutant, add

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W28",
    breaks=("I53", "I18"),
    source="weak spot W28",
    summary="collecting a connector closes it",
)


def apply() -> None:
    """Make the change."""
    from omni_verify.pipeline.shm_connector import SharedMemoryConnector

    add("shm_connector:SharedMemoryConnector.__del__", SharedMemoryConnector.close)
