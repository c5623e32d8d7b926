"""The sender lock is held while the connector puts.

An abort, and every other request of the stage, waits for the I/O of one.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M42",
    breaks=("I29", "I37"),
    source="vllm-omni#6089",
    summary="the sender lock is held while the connector puts",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        (
            "    failure = self._put(build_key(ext, self.connector.stage_id, chunk_id), payload)\n",
            (
                "    with self._sender_state_lock:\n"
                "        failure = self._put(build_key(ext, self.connector.stage_id, chunk_id), "
                "payload)\n"
            ),
        ),
    )
