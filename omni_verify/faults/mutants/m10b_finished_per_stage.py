"""Each final-output stage finishes the request on its own.

A message that ends one modality is taken for the end of the request.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M10b",
    breaks=("I6", "I7"),
    source="vllm-omni#7376",
    summary="each final-output stage finishes the request on its own",
)


def apply() -> None:
    """Make the change."""
    edit(
        "orchestration.orchestrator:Orchestrator._route",
        ("request_finished=ended and is_request_finished(state)", "request_finished=ended"),
    )
