"""Cleanup drops a terminal that is still queued.

The consumer never learns that the stream has ended.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M48",
    breaks=("I34",),
    source="vllm-omni#6670",
    summary="cleanup drops a terminal that is still queued",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.generation:SenderGeneration.may_put",
        ("return is_terminal or not self.cancelled or self.terminal_pending", "return not self.cancelled"),
    )
