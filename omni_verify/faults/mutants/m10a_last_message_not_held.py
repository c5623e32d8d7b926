"""The last message does not wait for stages that still run.

The request is dropped while an upstream stage is still working for it.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M10a",
    breaks=("I6", "I7"),
    source="vllm-omni#5349",
    summary="the last message does not wait for stages that still run",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:must_hold_final",
        (("async_chunk and not state.streaming_input and not all_submitted_stages_finished(state)"), "False"),
    )
