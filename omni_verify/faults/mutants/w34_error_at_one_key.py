"""The end of a failed stream is put at the failed chunk's key only.

A consumer that has read the chunk of a put that then failed waits at the next key for ever.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W34",
    breaks=("I36", "I28"),
    source="weak spot W34",
    summary="the end of a failed stream is put at the failed chunk's key only",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        ("(chunk_id, chunk_id + 1)", "(chunk_id,)"),
    )
