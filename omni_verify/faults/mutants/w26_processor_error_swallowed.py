"""An exception of the processor loses its chunk and the stream goes on.

A silent hole, or a stream without an end.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W26",
    breaks=("I36", "I14"),
    source="weak spot W26",
    summary="an exception of the processor loses its chunk and the stream goes on",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        (
            (
                '        self._fail_stream(generation, task, _reason("stage input processor", '
                "error), (chunk_id,))\n"
            ),
            "",
        ),
    )
