"""A key is used as a file name as it is.

With a slash in it, or when it is long, every put fails.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W16",
    breaks=("I27", "I36"),
    source="weak spot W16",
    summary="a key is used as a file name as it is",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._store",
        ("name = file_name(key)", "name = key"),
    )
