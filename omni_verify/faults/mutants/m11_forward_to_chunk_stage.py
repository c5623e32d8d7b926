"""Full results go to stages that receive chunks too.

A stage that is fed by chunks gets its input a second time. Without streaming input the placeholder that it
holds hides this.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M11",
    breaks=("I10", "I9"),
    source="vllm-omni#7544",
    summary="full results go to stages that receive chunks too",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:should_forward",
        ("        and not (async_chunk and stages[nxt].receives_chunks)\n", ""),
    )
