"""Get waits for a lock that is held.

One slow writer stalls all requests of the receiving stage.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M38",
    breaks=("I24",),
    source="vllm-omni#8082",
    summary="get waits for a lock that is held",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._take",
        ("        lock = try_acquire(path)\n", '        lock = acquire(path, float("inf"))\n'),
    )
