"""A key joins the cleanup range after its put succeeded.

A put that creates and then fails while the request is aborted leaves its segment.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M45",
    breaks=("I31",),
    source="vllm-omni#8082",
    summary="a key joins the cleanup range after its put succeeded",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._claim_key",
        ("            generation.num_puts = max(generation.num_puts, chunk_id + 1)\n", "            pass\n"),
    )
    edit(
        "transfer_adapter.sending:ChunkSending._commit_put",
        (
            "        self.put_req_chunk[ext] += 1\n",
            (
                "        self.put_req_chunk[ext] += 1\n"
                "        generation.num_puts = max(generation.num_puts, self.put_req_chunk[ext])\n"
            ),
        ),
    )
