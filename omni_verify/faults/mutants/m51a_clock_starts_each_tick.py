"""The stall clock starts anew at every tick.

The deadline never comes.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M51a",
    breaks=("I46",),
    source="vllm-omni#3833",
    summary="the stall clock starts anew at every tick",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking._may_stay",
        (
            "self._waiting_since.setdefault(request_id, time.monotonic())",
            "self._waiting_since[request_id] = time.monotonic()",
        ),
    )
