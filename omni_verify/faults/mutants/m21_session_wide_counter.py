"""Chunk arithmetic uses the chunk numbers of the whole stream.

In a second segment the windows are those of a stream that has already sent frames.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M21",
    breaks=("I13",),
    source="weak spot W5",
    summary="chunk arithmetic uses the chunk numbers of the whole stream",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.talker2code2wav:chunks_put",
        ("transfer_manager.ramp_chunk_count.get", "transfer_manager.put_req_chunk.get"),
    )
