"""A refused chunk is not recorded as a failure.

The request goes on and its audio is silently missing.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M46b",
    breaks=("I32",),
    source="vllm-omni#6033",
    summary="a refused chunk is not recorded as a failure",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission.save_async",
        ("        self.record_send_failure(request.request_id, refusal)\n", ""),
    )
