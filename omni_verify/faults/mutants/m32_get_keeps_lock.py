"""Get leaves the lock file.

One file for every chunk that was ever read.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M32",
    breaks=("I19", "I51"),
    source="vllm-omni#8082",
    summary="get leaves the lock file",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._take",
        (("        if data:\n            lock.remove()\n"), ""),
    )
