"""The chunk counter advances although the put failed.

The stream has a hole that its consumer waits at for ever.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M41a",
    breaks=("I28",),
    source="vllm-omni#6033",
    summary="the chunk counter advances although the put failed",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        ("    if failure is not None:\n", "    if failure is not None and False:\n"),
    )
