"""A new stream does not look for unread chunks of an older one.

The key carries no generation: the new request hears the old audio.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W20",
    breaks=("I38c",),
    source="weak spot W20",
    summary="a new stream does not look for unread chunks of an older one",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._reclaim_leftovers_before_reuse",
        ("    if self._can_reclaim:\n", "    if False:\n"),
    )
