"""The first row of a step decides for all its rows.

A stop row is sent as audio, or good rows are dropped.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W06",
    breaks=("I13b",),
    source="weak spot W6",
    summary="the first row of a step decides for all its rows",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.validity:valid_frames",
        (
            ("[row for row in rows if not is_placeholder(row) and not is_stop_frame(row, stop_tokens)]"),
            (
                "[row for row in rows if not is_placeholder(rows[0]) and not "
                "is_stop_frame(rows[0], stop_tokens)]"
            ),
        ),
    )
