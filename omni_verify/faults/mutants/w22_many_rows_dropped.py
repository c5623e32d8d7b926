"""A decode step of several rows is dropped.

Under speculative decoding the talker misses words.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W22",
    breaks=("I13",),
    source="weak spot W22",
    summary="a decode step of several rows is dropped",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.thinker2talker:thinker2talker_async_chunk",
        ("if rows is None or len(rows) == 0:", "if rows is None or len(rows) != 1:"),
    )
