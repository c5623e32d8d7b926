"""A parked request is ready when it is restored.

The placeholder is executed as if it were a chunk.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M52a",
    breaks=("I44", "I9"),
    source="vllm-omni#1409",
    summary="a parked request is ready when it is restored",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.parking:ChunkParking.restore_queues",
        (
            "    self._purge_dead(scheduler_requests)\n",
            (
                "    self._purge_dead(scheduler_requests)\n"
                "    for deque_ in self._parking_deques():\n"
                "        self.requests_with_ready_chunks.update(request.request_id for request "
                "in deque_)\n"
            ),
        ),
    )
