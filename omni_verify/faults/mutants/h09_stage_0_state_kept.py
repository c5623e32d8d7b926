"""An abort leaves the sender state of stage 0.

About 45 KB for each aborted request.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H09",
    breaks=("I39",),
    source="vllm-omni#6352",
    summary="an abort leaves the sender state of stage 0",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.chunk_transfer_adapter:OmniChunkTransferAdapter._finish_one",
        (
            "    self._end_sender(external_req_id, aborted=aborted)\n",
            (
                "    if int(self.connector.stage_id) != 0:\n"
                "        self._end_sender(external_req_id, aborted=aborted)\n"
            ),
        ),
    )
