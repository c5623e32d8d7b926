"""A row ends where the longest row of its batch ends.

The shorter request gets the decoded padding as audio.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M63b",
    breaks=("I48",),
    source="vllm-omni#7340",
    summary="a row ends where the longest row of its batch ends",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.decode:new_samples",
        ("streaming_slice(row.context, row.frames,", "streaming_slice(row.context, window_frames,"),
    )
