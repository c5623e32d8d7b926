"""Parked requests return in reverse order.

The oldest request is served last, again and again.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M58a",
    breaks=("I44",),
    source="vllm-omni#1691",
    summary="parked requests return in reverse order",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking.restore_queues",
        (
            "self.waiting_for_chunk_waiting_requests.popleft()",
            "self.waiting_for_chunk_waiting_requests.pop()",
        ),
        ("parked.popleft()", "parked.pop()"),
    )
