"""A stage may be given a complete result again.

Two submissions of one request: the stage refuses the second, and the request fails.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M13",
    breaks=("I10",),
    source="vllm-omni#7544",
    summary="a stage may be given a complete result again",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.state:should_forward",
        ("        and (not state.submitted(nxt) or state.streaming_input)\n", ""),
    )
