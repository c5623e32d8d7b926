"""A tick clears the ready marker of every request.

A request that had its chunk but no room in the batch loses its turn, and the chunk.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M56",
    breaks=("I43",),
    source="article section 5.6",
    summary="a tick clears the ready marker of every request",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking.postprocess_scheduler_output",
        (
            "self.requests_with_ready_chunks.difference_update(scheduled)",
            "self.requests_with_ready_chunks.clear()",
        ),
    )
