"""Cumulative audio is sent as it comes.

800, 2000 and 2400 samples become 5200.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M64",
    breaks=("I40",),
    source="vllm-omni#7544",
    summary="cumulative audio is sent as it comes",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.trimming:trim_cumulative",
        ("if not trimmer.cumulative:", "if True:"),
    )
