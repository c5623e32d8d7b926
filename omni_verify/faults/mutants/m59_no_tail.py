"""The samples that the decoder withholds are not accounted for.

Every window boundary loses or repeats a few hundred samples.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M59",
    breaks=("I47",),
    source="vllm-omni#4706",
    summary="the samples that the decoder withholds are not accounted for",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.slices:withheld_tail",
        ("return max(0, window_frames * total_upsample - decoded_samples)", "return 0"),
    )
