"""Stage 0 alone says whether the pipeline chunks.

A pipeline whose stage 0 hands over full results may chunk behind it.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M4",
    breaks=("I5",),
    source="article section 4.2",
    summary="stage 0 alone says whether the pipeline chunks",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:any_stage_async_chunk",
        ("any(stage.async_chunk for stage in stages)", "next(iter(stages)).async_chunk"),
    )
