"""The id is compared instead of the registration.

A new request of the same id gets the chunk of the old one.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M53b",
    breaks=("I38",),
    source="vllm-omni#6089",
    summary="the id is compared instead of the registration",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._poll_single_request",
        (
            (
                "        if self._registered_load_entries.get(request_id) is not entry:\n"
                "            return True\n"
                "        if result is None and"
            ),
            (
                "        if request_id not in self._registered_load_entries:\n"
                "            return True\n"
                "        if result is None and"
            ),
        ),
    )
