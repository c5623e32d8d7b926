"""A request changes the shared default parameters.

The next client hears its audio again and again.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M66",
    breaks=("I41",),
    source="vllm-omni#7544",
    summary="a request changes the shared default parameters",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.jobs:request_params",
        ("own = shared.clone()", "own = shared"),
    )
