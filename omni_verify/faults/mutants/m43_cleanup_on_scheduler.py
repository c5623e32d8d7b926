"""The scheduler thread cleans up at once instead of queueing.

A put in flight creates its segment after the cleanup, and nobody owns it.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M43",
    breaks=("I30", "I31"),
    source="vllm-omni#8082",
    summary="the scheduler thread cleans up at once instead of queueing",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission._end_sender",
        (
            "        elif not (generation.in_flight or generation.terminal_pending):\n",
            (
                "        elif not generation.terminal_pending:\n"
                '            self._cleanup_range(f"{ext}_{self.connector.stage_id}", '
                "generation.num_puts)\n"
                "            generation.num_puts = 0\n"
            ),
        ),
    )
