"""Every stage up to the final one gets a placeholder.

A stage that takes a full result must not run before it exists.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M7",
    breaks=("I8",),
    source="vllm-omni#7505",
    summary="every stage up to the final one gets a placeholder",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:stages_to_prewarm",
        ("        and stage.receives_chunks\n", ""),
    )
