"""Async_chunk may be anything, not only a bool.

A flag of any type is accepted: the string "false" is true.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M1",
    breaks=("I3",),
    source="vllm-omni#7544",
    summary="async_chunk may be anything, not only a bool",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:check_async_chunk_type",
        ("if isinstance(value, bool) or (optional and value is None):", "if True:"),
    )
