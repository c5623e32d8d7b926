"""Shorter rows are padded on the left.

Their samples begin with the decoded padding.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M63a",
    breaks=("I48",),
    source="vllm-omni#7340",
    summary="shorter rows are padded on the left",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.rows:pad_batch",
        ("batch[i, :, : row.frames] = row.codes", "batch[i, :, width - row.frames :] = row.codes"),
    )
