"""A release takes the chunks of whatever stream uses the id.

A new stream of the id loses what it has put.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W09",
    breaks=("I50", "I30"),
    source="weak spot W9",
    summary="a release takes the chunks of whatever stream uses the id",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission.release_shm_resources",
        ("        if generation is None:\n", "        if generation is None or not generation.cancelled:\n"),
    )
