"""A window ends after as many frames as are new.

Once there is left context, its length is missing at the end.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M62",
    breaks=("I47",),
    source="article section 3.8",
    summary="a window ends after as many frames as are new",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.slices:streaming_slice",
        ("max(0, frames * total_upsample - tail)", "max(0, (frames - context) * total_upsample - tail)"),
    )
