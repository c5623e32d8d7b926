"""No terminal is sent when the processor has nothing more to say.

The consumer waits for its deadline whenever the last chunk was full.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M18b",
    breaks=("I14",),
    source="vllm-omni#3607",
    summary="no terminal is sent when the processor has nothing more to say",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._build_payload",
        ("if not (is_boundary or is_finished):", "if not is_boundary:"),
    )
