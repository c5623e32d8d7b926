"""A range cleanup goes to the front of the save queue.

In an adapter that admits new chunks before the old ones have left this reorders old puts and cleanup.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M44a",
    breaks=("I30",),
    source="vllm-omni#8082",
    summary="a range cleanup goes to the front of the save queue",
    equivalent=(
        "A range is queued only when its stream has retired: no put of it is under way "
        "then, those still queued are discarded by identity, and a new stream is "
        "admitted only afterwards."
    ),
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sender_state:SenderState._queue_range_cleanup_locked",
        ("self._queue_item_locked({", "self._pending_save_reqs.appendleft({"),
    )
