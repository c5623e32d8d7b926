"""Codes are flattened frame by frame, without the transpose.

The length is right and the order is not: noise.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M15",
    breaks=("I12",),
    source="article section 3.4",
    summary="codes are flattened frame by frame, without the transpose",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.layout:flatten_codebook_major",
        ("window.transpose(0, 1).reshape(-1)", "window.reshape(-1)"),
    )
