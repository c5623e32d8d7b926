"""Maps with reserved keys are written.

A plain dict arrives as a tensor, or not at all.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W32",
    breaks=("I15",),
    source="weak spot W32",
    summary="maps with reserved keys are written",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serde:_refuse_map",
        (
            "    if not RESERVED_KEYS.isdisjoint(keys):\n",
            ("    if True:\n        return\n    if not RESERVED_KEYS.isdisjoint(keys):\n"),
        ),
    )
