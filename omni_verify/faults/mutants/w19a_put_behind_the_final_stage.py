"""A stage puts although no later stage serves the request.

A text-only request leaves a terminal that nobody reads.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W19a",
    breaks=("I50", "I51"),
    source="weak spot W19",
    summary="a stage puts although no later stage serves the request",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission._nothing_downstream",
        (
            "return final_stage is not None and int(final_stage) <= int(self.connector.stage_id)",
            "return False",
        ),
    )
