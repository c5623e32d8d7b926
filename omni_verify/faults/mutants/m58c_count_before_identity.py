"""The chunk counter advances before the registration is compared.

A stale get makes the next request of the id skip its first chunk.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M58c",
    breaks=("I38", "I28"),
    source="vllm-omni#6089",
    summary="the chunk counter advances before the registration is compared",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._poll_single_request",
        (
            '        logger.error("get(%r) raised: %s", key, error)\n',
            (
                '        logger.error("get(%r) raised: %s", key, error)\n'
                "    if result is not None:\n"
                "        self.get_req_chunk[request_id] = chunk_id + 1\n"
            ),
        ),
    )
