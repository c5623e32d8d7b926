"""A stage's True outranks the pipeline's False.

The pipeline's flag is the upper bound; a stage may only opt out.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M2b",
    breaks=("I1",),
    source="article section 4.2",
    summary="a stage's True outranks the pipeline's False",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:combine_flags",
        ("bool(pipeline and stage is not False)", "bool(pipeline if stage is None else stage)"),
    )
