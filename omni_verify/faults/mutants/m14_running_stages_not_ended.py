"""Stages that still run are not told that the request has ended.

The state of a request whose consumer stopped early stays for ever.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M14",
    breaks=("I39", "I51"),
    source="vllm-omni#5672",
    summary="stages that still run are not told that the request has ended",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:stages_left_running",
        ("return sorted(set(state.stage_submit_ts) - state.finished_stage_ids)", "return []"),
    )
