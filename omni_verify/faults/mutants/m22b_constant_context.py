"""The left context always has its full length.

The first chunks have no 25 frames behind them; their new frames are cut instead.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M22b",
    breaks=("I11", "I47"),
    source="article section 3.5",
    summary="the left context always has its full length",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:chunk_window",
        ("left_context(emitted, sizes.left_context)", "sizes.left_context"),
        ("ChunkWindow(emitted - context,", "ChunkWindow(max(0, emitted - context),"),
    )
