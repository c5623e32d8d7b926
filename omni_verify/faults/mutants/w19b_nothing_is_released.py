"""Unread chunks of an ended request stay.

A consumer that stopped early leaves what it did not read until the stage closes.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W19b",
    breaks=("I50", "I51"),
    source="weak spot W19",
    summary="unread chunks of an ended request stay",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission.release_shm_resources",
        ("    if not self._can_reclaim:\n", "    if True:\n"),
    )
