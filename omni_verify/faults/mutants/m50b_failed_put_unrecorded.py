"""A failed put is not recorded for the scheduler.

The producing stage goes on with a request that nobody will hear.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M50b",
    breaks=("I36",),
    source="vllm-omni#6033",
    summary="a failed put is not recorded for the scheduler",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.failed_stream:FailedStreams._fail_stream",
        ('    self.record_send_failure(task["request"].request_id, reason)\n', ""),
    )
