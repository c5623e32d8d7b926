"""Every chunk has the size of the first.

Small chunks cost throughput for the whole stream instead of once.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M17b",
    breaks=("I13",),
    source="article section 3.5",
    summary="every chunk has the size of the first",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:threshold",
        ("max(0, k + 1 - ramp) * sizes.chunk", "max(0, k + 1 - ramp) * (sizes.initial or sizes.chunk)"),
    )
