"""The last chunk finishes the request instead of exhausting its upstream.

The scheduler drops the request with its last window undecoded.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M58d",
    breaks=("I47",),
    source="article section 2.5",
    summary="the last chunk finishes the request instead of exhausting its upstream",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._commit_received_chunk",
        (
            "        request.resumable = False\n",
            (
                "        request.resumable = False\n"
                "        request.status = type(request.status).FINISHED_STOPPED\n"
            ),
        ),
    )
