"""A range cleanup runs on a thread of its own.

It can run after the first put of the next stream of the id, and take that.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M44b",
    breaks=("I30",),
    source="vllm-omni#8082",
    summary="a range cleanup runs on a thread of its own",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sender_state:SenderState._queue_range_cleanup_locked",
        (
            ('self._queue_item_locked({"cleanup_shm": (f"{ext}_{self.connector.stage_id}", num_puts)})'),
            (
                "threading.Thread(\n"
                "            target=self._cleanup_range, "
                'args=(f"{ext}_{self.connector.stage_id}", num_puts), daemon=True\n'
                "        ).start()"
            ),
        ),
    )
