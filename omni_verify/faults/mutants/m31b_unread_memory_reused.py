"""A spare is filled again although its segment is unread.

The unread chunk turns into the next one.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M31b",
    breaks=("I18",),
    source="SPEC of the connector: a value is whole until it is consumed",
    summary="memory of a segment is written to before the segment was read",
)


def apply() -> None:
    """Make the change."""
    edit("spares:Spare.is_alone", ("os.fstat(self.fd).st_nlink != 1", "False"))
