"""A stage may wait for chunks behind a producer that sends none.

It hangs until the deadline, by configuration.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W12",
    breaks=("I4b",),
    source="weak spot W12",
    summary="a stage may wait for chunks behind a producer that sends none",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.edges:validate_edges",
        ("    if strict:\n", "    if strict and False:\n"),
    )
