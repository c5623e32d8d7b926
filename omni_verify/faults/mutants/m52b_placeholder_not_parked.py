"""A request that has computed nothing yet is not parked.

The model runs on an empty placeholder: a burst of noise.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M52b",
    breaks=("I44", "I9"),
    source="vllm-omni#1409",
    summary="a request that has computed nothing yet is not parked",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking._park",
        (
            "elif not self._may_stay(request, queue_status):",
            "elif not self._may_stay(request, queue_status) and request.num_computed_tokens:",
        ),
    )
