"""Pieces of a cumulative list are not counted.

Every output repeats all the pieces before.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M67",
    breaks=("I42",),
    source="vllm-omni#3031",
    summary="pieces of a cumulative list are not counted",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.trimming:new_pieces",
        ("    trimmer.prev_count = max(trimmer.prev_count, len(pieces))\n", ""),
    )
