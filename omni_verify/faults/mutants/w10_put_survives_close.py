"""A put that ends after close keeps what it wrote.

Two files for each put that was under way when the stage stopped.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W10",
    breaks=("I53",),
    source="weak spot W10",
    summary="a put that ends after close keeps what it wrote",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._end_put",
        ("keep = meta is not None and not self._closed", "keep = meta is not None"),
    )
