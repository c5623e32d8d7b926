"""The sweep of dead senders leaves their spares.

Their memory stays in /dev/shm.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M35c",
    breaks=("I53",),
    source="SPEC of the wake directory: what a killed sender had is removed by whoever closes",
    summary="spares of a killed sender are not swept",
)


def apply() -> None:
    """Make the change."""
    edit("journal:sweep_dead_owners", ("    sweep_dead_spares(directory)\n", ""))
