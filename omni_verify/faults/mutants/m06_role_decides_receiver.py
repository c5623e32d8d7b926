"""The connector's role alone says who receives chunks.

A stage with async_chunk off gets a placeholder and waits for chunks that nobody sends.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M6",
    breaks=("I8",),
    source="vllm-omni#7505",
    summary="the connector's role alone says who receives chunks",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:stage_receives_chunks",
        ("bool(model_config.async_chunk) and connector_role", "connector_role"),
    )
