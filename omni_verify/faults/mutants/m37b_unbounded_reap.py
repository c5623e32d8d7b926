"""One reap looks at every tracked key.

A stage with thousands of unread chunks stalls its save thread.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M37b",
    breaks=("I23", "I51"),
    source="vllm-omni#8082",
    summary="one reap looks at every tracked key",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector.reap_consumed",
        ("range(min(REAP_BUDGET, len(self._pending_keys)))", "range(len(self._pending_keys))"),
    )
