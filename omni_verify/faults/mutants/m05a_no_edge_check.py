"""No edge is checked.

Two ends of a chunked edge with different modes wait for each other until the deadline.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M5a",
    breaks=("I4",),
    source="vllm-omni#4793",
    summary="no edge is checked",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.edges:validate_stage_async_chunk_edges",
        ("in async_chunk_edges(pipeline):", "in ():"),
    )
