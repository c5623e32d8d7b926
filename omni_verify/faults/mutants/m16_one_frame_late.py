"""A chunk waits for one frame more than it carries.

Every chunk leaves one model step, 80 ms, too late.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M16",
    breaks=("I13",),
    source="article section 3.5",
    summary="a chunk waits for one frame more than it carries",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:must_hold",
        ("frames < threshold", "frames <= threshold"),
    )
