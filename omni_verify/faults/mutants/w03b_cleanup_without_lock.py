"""Cleanup takes no lock.

It removes the lock file of a put that is under way.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W03b",
    breaks=("I26", "I18"),
    source="weak spot W3",
    summary="cleanup takes no lock",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._remove",
        (
            "    path = lock_path(name)\n",
            (
                "    path = lock_path(name)\n"
                "    removed = unlink_segment(name)\n"
                "    with contextlib.suppress(OSError):\n"
                "        os.remove(path)\n"
                "    return True, removed\n"
            ),
        ),
    )
