"""Keys are made of the internal id.

The consumer waits at a key that nobody writes.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H07",
    breaks=("I28",),
    source="vllm-omni#2048",
    summary="keys are made of the internal id",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        (
            "build_key(ext, self.connector.stage_id, chunk_id)",
            'build_key(task["owner"].request_id, self.connector.stage_id, chunk_id)',
        ),
    )
