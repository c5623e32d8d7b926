"""A chunk does not stop the stall clock.

A long stream that never stalls runs into the deadline.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M51d",
    breaks=("I46",),
    source="vllm-omni#6033",
    summary="a chunk does not stop the stall clock",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking._may_stay",
        ("        self._waiting_since.pop(request_id, None)\n", ""),
    )
