"""Left_context_size is left out when it is 0.

The receiver keeps the value of the chunk before and cuts audio away.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M20",
    breaks=("I11",),
    source="vllm-omni#4421",
    summary="left_context_size is left out when it is 0",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.talker2code2wav:codec_payload",
        ("left_context_size=window.context,", "left_context_size=window.context or None,"),
    )
