"""A complete result waits for ever for a finish that was lost.

The client has all its audio and no end.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W27b",
    breaks=("I6", "I7"),
    source="weak spot W27",
    summary="a complete result waits for ever for a finish that was lost",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.orchestrator:Orchestrator._expire_held",
        ("now - since > self.hold_timeout_s", "False"),
    )
