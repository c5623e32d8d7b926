"""The registration is compared before the get only.

A chunk that arrives after the cleanup is committed to a dead request.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M53a",
    breaks=("I38",),
    source="vllm-omni#6089",
    summary="the registration is compared before the get only",
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
            "        if result is None and",
        ),
    )
