"""Parked requests do not return when scheduling raised.

One bad tick loses every request that waits for a chunk.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M58e",
    breaks=("I44",),
    source="vllm-omni#1691",
    summary="parked requests do not return when scheduling raised",
)


def apply() -> None:
    """Make the change."""
    edit(
        "scheduling.base:StageScheduler.schedule",
        ("    finally:\n", ("    except GeneratorExit:\n        raise\n    else:\n")),
    )
