"""The tail is computed for the row instead of the padded window.

A row that is shorter than its batch mates gets samples of its padding.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M60",
    breaks=("I48",),
    source="vllm-omni#7340",
    summary="the tail is computed for the row instead of the padded window",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.decode:new_samples",
        ("withheld_tail(window_frames, decoded", "withheld_tail(row.frames, decoded"),
    )
