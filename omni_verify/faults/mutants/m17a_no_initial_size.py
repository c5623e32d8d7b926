"""The size of the first chunk is ignored.

The first sound comes after 25 frames instead of 4.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M17a",
    breaks=("I13",),
    source="article section 3.5",
    summary="the size of the first chunk is ignored",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:chunk_size",
        ("return sizes.initial if k == 0 and sizes.initial > 0 else sizes.chunk", "return sizes.chunk"),
    )
