"""Only the first edge is checked.

The second edge may disagree with itself, and hangs.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M5b",
    breaks=("I4",),
    source="vllm-omni#4793",
    summary="only the first edge is checked",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.edges:validate_stage_async_chunk_edges",
        ("in async_chunk_edges(pipeline):", "in async_chunk_edges(pipeline)[:1]:"),
    )
