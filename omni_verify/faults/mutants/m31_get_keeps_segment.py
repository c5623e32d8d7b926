"""Get does not unlink the segment.

The object can be read twice, and stays.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M31",
    breaks=("I19",),
    source="article section 2.4",
    summary="get does not unlink the segment",
)


def apply() -> None:
    """Make the change."""
    edit(
        "segments:shm_read_bytes",
        (("    if data:\n        unlink_segment(name)\n"), ""),
    )
