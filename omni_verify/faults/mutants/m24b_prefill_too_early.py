"""The first conditions leave before they reach past the prompt.

The talker's first step runs on a prefill that is too short.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M24b",
    breaks=("I9",),
    source="vllm-omni#769",
    summary="the first conditions leave before they reach past the prompt",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.thinker2talker:covers_first_position",
        ("return rows > len(request.prompt_token_ids)", "return rows > 0"),
    )
