"""A failed put leaves its lock file.

Nobody knows the key, so not even close removes it.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M35a",
    breaks=("I27", "I22"),
    source="weak spot W21",
    summary="a failed put leaves its lock file",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._end_put",
        (
            ("                unlink_segment(name)\n                lock.remove()\n"),
            "                unlink_segment(name)\n",
        ),
    )
