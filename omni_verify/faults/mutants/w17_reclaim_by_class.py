"""Unread chunks are reclaimed only for the shipped connector class.

A third-party connector leaks on every abort.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W17",
    breaks=("I51",),
    source="weak spot W17",
    summary="unread chunks are reclaimed only for the shipped connector class",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sender_state:SenderState._can_reclaim",
        (
            'return has_cleanup and bool(getattr(self.connector, "reclaims_by_key", True))',
            'return has_cleanup and type(self.connector).__name__ == "SharedMemoryConnector"',
        ),
    )
