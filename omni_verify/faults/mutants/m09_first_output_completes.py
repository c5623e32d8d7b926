"""A request is complete when one of its final outputs is.

The client gets audio and never the word times that it asked for.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M9",
    breaks=("I6",),
    source="vllm-omni#7544",
    summary="a request is complete when one of its final outputs is",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:is_request_finished",
        (
            "state.final_output_stage_ids <= state.finished_final_output_stage_ids",
            "bool(state.final_output_stage_ids & state.finished_final_output_stage_ids)",
        ),
    )
