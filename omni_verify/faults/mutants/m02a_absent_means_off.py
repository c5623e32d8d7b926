"""A stage without a flag of its own does not chunk.

None must inherit the pipeline's flag; here it switches the stage off.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M2a",
    breaks=("I1",),
    source="article section 4.2",
    summary="a stage without a flag of its own does not chunk",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:combine_flags",
        ("stage is not False", "stage"),
    )
