"""The end of a stream does not flush the frames in hand.

Up to 24 frames, two seconds, are missing at the end.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M18",
    breaks=("I13",),
    source="vllm-omni#5414",
    summary="the end of a stream does not flush the frames in hand",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:chunk_window",
        ("(not flush and must_hold(frames, k, sizes))", "must_hold(frames, k, sizes)"),
    )
