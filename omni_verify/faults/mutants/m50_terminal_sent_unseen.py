"""A terminal counts as sent whatever its put says.

The range of a stream whose terminal failed is kept for a consumer that cannot read it.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M50",
    breaks=("I35",),
    source="vllm-omni#8082",
    summary="a terminal counts as sent whatever its put says",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        ("    if failure is not None:\n", '    if failure is not None and not task["is_finished"]:\n'),
    )
