"""The all-zero row of a prefill step is sent as a frame.

Every utterance begins with 80 ms of noise.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M23b",
    breaks=("I13b",),
    source="vllm-omni#7978",
    summary="the all-zero row of a prefill step is sent as a frame",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.validity:valid_frames",
        ("not is_placeholder(row) and not is_stop_frame", "not is_stop_frame"),
    )
