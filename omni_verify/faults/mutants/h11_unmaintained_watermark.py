"""A segment end advances the watermark past a counter that nobody maintains.

Every later frame of the session is dropped as late.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H11",
    breaks=("I13",),
    source="vllm-omni#6834",
    summary="a segment end advances the watermark past a counter that nobody maintains",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission._admit_locked",
        ("segment + 1 if counted else segment", "segment + 1"),
    )
