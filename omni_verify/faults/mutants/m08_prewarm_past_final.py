"""Placeholders go to the last stage of the pipeline, not of the request.

A text-only request wakes talker and decoder, and nobody ends them.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M8",
    breaks=("I8", "I51"),
    source="vllm-omni#7505",
    summary="placeholders go to the last stage of the pipeline, not of the request",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:stages_to_prewarm",
        ("0 < stage.stage_id <= state.final_stage_id", "0 < stage.stage_id"),
    )
