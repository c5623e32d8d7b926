"""The receiver reads codes frame by frame.

The length is right and the order is not: noise.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M61",
    breaks=("I12", "I47"),
    source="article section 3.8",
    summary="the receiver reads codes frame by frame",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.rows:reshape_codebook_major",
        ("flat.reshape(num_quantizers, -1)", "flat.reshape(-1, num_quantizers).T"),
    )
