"""The save thread cleans up the receiving side itself.

The scheduler's containers change while it walks them.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W02",
    breaks=("I44b",),
    source="weak spot W2",
    summary="the save thread cleans up the receiving side itself",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._post_receiver_cleanup",
        (
            (
                "    with self._receiver_state_lock:\n"
                "        if self._owns_receiver(request):\n"
                "            self._receiver_inbox.append(request)"
            ),
            ("    if self._owns_receiver(request):\n        self._clear_receiver(request.request_id)"),
        ),
    )
