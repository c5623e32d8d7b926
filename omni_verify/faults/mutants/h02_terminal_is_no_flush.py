"""Only the end of a segment flushes the processor.

The frames in hand at a terminal stop are lost.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H02",
    breaks=("I13",),
    source="vllm-omni#5414",
    summary="only the end of a segment flushes the processor",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._build_payload",
        ('"is_finished": is_boundary or is_finished', '"is_finished": is_boundary'),
    )
