"""A receive failure that nobody has taken outlives its request.

The next request of the id ends with the error of the last one.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W08b",
    breaks=("I38b", "I39"),
    source="weak spot W8; found by fuzzing the reference with three stages",
    summary="a receive failure that nobody has taken outlives its request",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._clear_receiver",
        ("self.forget_receive_failure(request_id)", "pass"),
    )
