"""One row without metadata takes the context from all rows of its batch.

The batch mates hear their context again.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W15",
    breaks=("I48",),
    source="weak spot W15",
    summary="one row without metadata takes the context from all rows of its batch",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.decode:generate_audio",
        ("row_from_request(prompt, info,", "row_from_request(prompt, info if all(infos) else None,"),
    )
