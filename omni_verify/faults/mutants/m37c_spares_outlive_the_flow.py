"""An idle sender keeps its spares.

Shared memory of consumed chunks stays taken.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M37c",
    breaks=("I51",),
    source="SPEC of quiescence: nothing of a consumed chunk is left",
    summary="an idle sender keeps its spares",
)


def apply() -> None:
    """Make the change."""
    edit("spares:SparePool.trim", ("if not self._used:", "if False:"))
