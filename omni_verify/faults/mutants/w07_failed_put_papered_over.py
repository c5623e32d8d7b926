"""A failed put of data is logged, and the next chunk takes its number.

The stream is shorter by one chunk, and nothing says so.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W07",
    breaks=("I36",),
    source="weak spot W7",
    summary="a failed put of data is logged, and the next chunk takes its number",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        ("self._fail_stream(generation, task, failure, (chunk_id, chunk_id + 1))", "logger.error(failure)"),
    )
