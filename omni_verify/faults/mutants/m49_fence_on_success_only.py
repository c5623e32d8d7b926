"""The terminal's fence is released only when its put succeeded.

A failed terminal keeps the state of its stream for ever.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M49",
    breaks=("I34", "I39"),
    source="vllm-omni#6889",
    summary="the terminal's fence is released only when its put succeeded",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._end_send",
        ('if task["is_finished"]:', 'if task["is_finished"] and generation.terminal_sent:'),
    )
