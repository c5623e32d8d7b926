"""The chunk counter does not advance after a put.

The next chunk replaces the one before, if that was not read yet.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M41b",
    breaks=("I28",),
    source="article section 5.3",
    summary="the chunk counter does not advance after a put",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.sending:ChunkSending._commit_put",
        ("        self.put_req_chunk[ext] += 1\n", ""),
    )
