"""The id mapping is published before the registration is compared.

A stale entry brings the mapping of a cleaned request back.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M54",
    breaks=("I38",),
    source="vllm-omni#6089",
    summary="the id mapping is published before the registration is compared",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.receiver:ChunkReceiver._poll_single_request",
        (
            "    request_id, stage = entry.request_id, int(self.connector.stage_id)\n",
            (
                "    request_id, stage = entry.request_id, int(self.connector.stage_id)\n"
                "    self.request_ids_mapping[request_id] = entry.external_req_id\n"
            ),
        ),
    )
