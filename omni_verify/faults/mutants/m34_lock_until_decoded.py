"""The lock file goes only after the object was decoded.

Bytes that do not decode are consumed, and their lock file stays for ever.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M34",
    breaks=("I20",),
    source="vllm-omni#8082",
    summary="the lock file goes only after the object was decoded",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._take",
        (
            ("            lock.remove()\n        return data"),
            ("            self.deserialize_obj(data)\n            lock.remove()\n        return data"),
        ),
    )
