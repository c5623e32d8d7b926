"""The sender lock is held while the processor runs.

The scheduler waits for a payload that is being built.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H06",
    breaks=("I29", "I37"),
    source="vllm-omni#6089",
    summary="the sender lock is held while the processor runs",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._send_chunk",
        (
            "        payload = self._build_payload(task)\n",
            ("        with self._sender_state_lock:\n            payload = self._build_payload(task)\n"),
        ),
    )
