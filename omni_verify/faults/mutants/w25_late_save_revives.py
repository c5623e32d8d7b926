"""A save after the end of its request starts a new stream.

A segment that nobody owns for each late output.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W25",
    breaks=("I32", "I51"),
    source="weak spot W25",
    summary="a save after the end of its request starts a new stream",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission._refusal_locked",
        ("if self._is_retired(request) or (generation is None and aborted):", "if False:"),
    )
