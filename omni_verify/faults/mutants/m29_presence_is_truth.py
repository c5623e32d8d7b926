"""A flag that is present counts as set.

finished=tensor(False) ends the stream with its first chunk.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M29",
    breaks=("I17b",),
    source="vllm-omni#3607",
    summary="a flag that is present counts as set",
)


def apply() -> None:
    """Make the change."""
    edit(
        "omni_verify.contracts.payload_schema:is_truthy_scalar",
        ("return bool(value.numel() == 1 and value.item())", "return True"),
    )
