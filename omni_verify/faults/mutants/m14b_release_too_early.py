"""Transport objects are released when one stage is done.

A stage that is done may have left a terminal that its consumer still has to read.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M14b",
    breaks=("I50",),
    source="vllm-omni#8082",
    summary="transport objects are released when one stage is done",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:may_release",
        ("return ended", "return True"),
    )
