"""Cleanup takes every key that begins with the given one.

R_1_1 takes R_1_10 with it, and task takes task_1_2.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M33",
    breaks=("I21",),
    source="vllm-omni#8082",
    summary="cleanup takes every key that begins with the given one",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector.cleanup",
        (
            "done, removed = self._remove(file_name(key))",
            (
                "done = True\n"
                "        removed = any([self._remove(n)[1] for n in os.listdir(SHM_ROOT) if "
                "n.startswith(file_name(key))])"
            ),
        ),
    )
