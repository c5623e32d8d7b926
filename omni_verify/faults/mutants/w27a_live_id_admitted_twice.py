"""An id that is live is admitted again.

The first owner is forgotten and hears nothing more.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W27a",
    breaks=("I6", "I7"),
    source="weak spot W27",
    summary="an id that is live is admitted again",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.orchestrator:check_admission",
        ("if request_id in orchestrator.requests:", "if False:"),
    )
