"""A release of a draining stream counts as done when the stream retires.

Its reclaim is still queued then: the id is used again while an old chunk can be read.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W20b",
    breaks=("I50", "I38c"),
    source="weak spot W20; found by running the test of one stream after another many times",
    summary="a release of a draining stream counts as done when the stream retires",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sender_state:SenderState._retire_locked",
        ("if generation.release_requested:", "if False:"),
    )
