"""An ended stream keeps its slot of the active window.

After as many ends as the window has slots every new request stalls.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H10",
    breaks=("I39", "I45"),
    source="vllm-omni#5373",
    summary="an ended stream keeps its slot of the active window",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._clear_receiver",
        ("    self._active_streams.pop(request_id, None)\n", ""),
    )
