"""A terminal that was put is reclaimed with the rest.

The consumer never learns that the stream has ended.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M47",
    breaks=("I33",),
    source="vllm-omni#4349",
    summary="a terminal that was put is reclaimed with the rest",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._settle_locked",
        (
            (
                "keep = generation.terminal_sent and not (generation.release_requested or "
                "self.stop_event.is_set())"
            ),
            "keep = False",
        ),
    )
