"""Restore_queues puts back requests that were freed meanwhile.

The scheduler runs a request that it no longer knows, and the worker raises.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H01",
    breaks=("I45",),
    source="vllm-omni#3774",
    summary="restore_queues puts back requests that were freed meanwhile",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking.restore_queues",
        ("    self._purge_dead(scheduler_requests)\n", ""),
    )
