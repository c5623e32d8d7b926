"""A stream with word timestamps keeps DELTA outputs.

The aligner sees the last piece of the audio only.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M68",
    breaks=("I49",),
    source="vllm-omni#7544",
    summary="a stream with word timestamps keeps DELTA outputs",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.jobs:output_kind_for",
        (
            "RequestOutputKind.CUMULATIVE if word_timestamps else RequestOutputKind.DELTA",
            "RequestOutputKind.DELTA",
        ),
    )
