"""The ready marker stays after the chunk was executed.

The same chunk is executed again.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M57",
    breaks=("I43",),
    source="article section 5.6",
    summary="the ready marker stays after the chunk was executed",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking.postprocess_scheduler_output",
        ("    self.requests_with_ready_chunks.difference_update(scheduled)\n", ""),
    )
