"""A window begins at its nominal sample, without the tail of the one before.

555 samples are missing at every window boundary, about 1.2 % of the audio.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H04",
    breaks=("I47",),
    source="vllm-omni#4706",
    summary="a window begins at its nominal sample, without the tail of the one before",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.slices:streaming_slice",
        ("max(0, context * total_upsample - tail)", "context * total_upsample"),
    )
