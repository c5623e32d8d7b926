"""Cleanup remembers every id that it cleaned.

A set that grows with the number of requests.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M55",
    breaks=("I39",),
    source="vllm-omni#8082",
    summary="cleanup remembers every id that it cleaned",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._clear_receiver",
        (
            "    with self._receiver_state_lock:\n",
            (
                '    self.__dict__.setdefault("_cancelled_load_reqs", set()).add(request_id)\n'
                "    with self._receiver_state_lock:\n"
            ),
        ),
    )
