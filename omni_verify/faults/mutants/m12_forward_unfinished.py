"""Any output is forwarded, not only a finished one.

The aligner gets the first piece of the audio for the whole.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M12",
    breaks=("I10", "I49"),
    source="vllm-omni#7544",
    summary="any output is forwarded, not only a finished one",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:should_forward",
        (("(output.finished or output.segment_finished)\n        and "), ""),
    )
