"""The receive loop waits for a hint without a limit.

A hint that is lost is a chunk that is never read.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M39",
    breaks=("I25",),
    source="article section 2.4",
    summary="the receive loop waits for a hint without a limit",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.arrival:ArrivalWait._wait_for_hint",
        ("        left -= slice_s\n", ""),
    )
