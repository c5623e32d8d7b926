"""Every tensor travels as float32.

Codes and flags come out as numbers of another type.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M26a",
    breaks=("I15",),
    source="vllm-omni#5739",
    summary="every tensor travels as float32",
)


def apply() -> None:
    """Make the change."""
    edit(
        "wire:_encode_tensor",
        ("array = tensor.numpy(force=True)", "array = tensor.float().numpy(force=True)"),
        ("_tensor_head(tensor.dtype, shape, size)", "_tensor_head(torch.float32, shape, size)"),
    )
