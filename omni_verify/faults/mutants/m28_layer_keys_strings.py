"""Layer numbers stay strings after unflatten.

layers[24] is not there, layers['24'] is.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M28",
    breaks=("I17",),
    source="vllm-omni#5917",
    summary="layer numbers stay strings after unflatten",
)


def apply() -> None:
    """Make the change."""
    edit(
        "omni_verify.contracts.payload_schema:unflatten_payload",
        ("[int(field[len(_LAYER) :])]", "[field[len(_LAYER) :]]"),
    )
