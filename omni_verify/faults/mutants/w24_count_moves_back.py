"""The count of sent samples follows a shorter output back.

Audio that the client has heard is sent again.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W24",
    breaks=("I42",),
    source="weak spot W24",
    summary="the count of sent samples follows a shorter output back",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.trimming:trim_cumulative",
        ("max(trimmer.emitted_samples, len(samples))", "len(samples)"),
    )
