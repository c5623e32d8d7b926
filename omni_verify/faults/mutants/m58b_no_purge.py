"""Requests that were freed elsewhere are not purged.

A dead request returns to the queue and is scheduled.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M58b",
    breaks=("I45",),
    source="vllm-omni#3774",
    summary="requests that were freed elsewhere are not purged",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking._purge_dead",
        ("    if live is None:\n", "    if True:\n"),
    )
