"""Offline decoding drops the tail at every inner block.

330 frames come out 555 samples short, and later audio is shifted.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W18",
    breaks=("I47b",),
    source="weak spot W18",
    summary="offline decoding drops the tail at every inner block",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.decode:chunked_decode",
        (
            "pieces[i].append(piece)",
            (
                "tail = chunk_size * decoder.total_upsample - pieces[i][0].numel() if start else 0\n"
                "            pieces[i].append(piece[tail:])"
            ),
        ),
    )
