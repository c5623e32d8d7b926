"""A lock counts although its path no longer names it.

A reader reads and destroys a segment that is being written.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W03a",
    breaks=("I26", "I18"),
    source="weak spot W3",
    summary="a lock counts although its path no longer names it",
)


def apply() -> None:
    """Make the change."""
    edit(
        "lockfile:_lock_if_current",
        ("        if found.st_nlink:", "        if True:"),
    )
