"""A 0-d tensor arrives with shape [1].

A flag is no longer a scalar.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M26b",
    breaks=("I15",),
    source="vllm-omni#5739",
    summary="a 0-d tensor arrives with shape [1]",
)


def apply() -> None:
    """Make the change."""
    edit(
        "wire:_encode_tensor",
        ("_tensor_head(tensor.dtype, shape, size)", "_tensor_head(tensor.dtype, shape or (1,), size)"),
    )
