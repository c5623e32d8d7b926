"""An all-zero row is dropped although the model declares it valid.

The explicit flag decides alone; silence may be all zeros.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M24",
    breaks=("I13b",),
    source="article section 3.4",
    summary="an all-zero row is dropped although the model declares it valid",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.validity:valid_frames",
        ("if valid]", "if valid and not is_placeholder(row)]"),
    )
