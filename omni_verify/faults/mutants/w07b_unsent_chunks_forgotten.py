"""A stage that had finished a request takes nothing of it along when it dies.

Its queue still held chunks: the next stage waits for them until the stall time is over.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W07b",
    breaks=("I36", "I46"),
    source="weak spot W7; found by killing stages under load",
    summary="a stage that had finished a request takes nothing of it along when it dies",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:is_lost_with",
        ("return reads and stage_id in state.unsent_stage_ids", "return False"),
    )
