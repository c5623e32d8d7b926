"""A lock file that cannot be removed fails the get.

The segment is consumed, and its content lost.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W21",
    breaks=("I19", "I22"),
    source="weak spot W21",
    summary="a lock file that cannot be removed fails the get",
)


def apply() -> None:
    """Make the change."""
    edit(
        "lockfile:KeyLock.remove",
        (("        return False\n    return True"), ("        raise\n    return True")),
    )
