"""A spare is filled again although somebody still has its unlinked segment open.

A reader without the key's lock finds the next chunk in the value that it opened.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M31c",
    breaks=("I26",),
    source="weak spot W3: foreign readers hold locks that nobody else sees",
    summary="memory of an unlinked segment is written to while it is read",
)


def apply() -> None:
    """Make the change."""
    edit(
        "spares:Spare.is_alone",
        ("except BlockingIOError:\n        return False", "except BlockingIOError:\n        return True"),
    )
