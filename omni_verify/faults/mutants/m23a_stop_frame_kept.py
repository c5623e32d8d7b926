"""The row of the stop token is sent as a frame.

A code that the decoder does not have, and a click at the end.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M23a",
    breaks=("I13b",),
    source="vllm-omni#2104",
    summary="the row of the stop token is sent as a frame",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.validity:valid_frames",
        (" and not is_stop_frame(row, stop_tokens)", ""),
    )
