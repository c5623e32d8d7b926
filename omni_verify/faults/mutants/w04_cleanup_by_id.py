"""The end of an old stream cleans up whatever is registered under its id.

A new request of the id loses its registration and its deadline.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W04",
    breaks=("I38b", "I46"),
    source="weak spot W4",
    summary="the end of an old stream cleans up whatever is registered under its id",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._owns_receiver",
        (
            "return self._receiver_owners.get(request.request_id) is request",
            "return request.request_id in self._receiver_owners",
        ),
    )
