"""The left context is counted against all frames instead of the emitted ones.

New frames are declared context: their audio is cut away.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M22a",
    breaks=("I11", "I47"),
    source="article section 3.5",
    summary="the left context is counted against all frames instead of the emitted ones",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.chunking:chunk_window",
        ("left_context(emitted, sizes.left_context)", "left_context(frames, sizes.left_context)"),
        ("ChunkWindow(emitted - context,", "ChunkWindow(max(0, emitted - context),"),
    )
