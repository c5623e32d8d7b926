"""Segments are filled through a mapping.

On a full file system the store is a SIGBUS that kills the stage.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W01",
    breaks=("I27b",),
    source="weak spot W1",
    summary="segments are filled through a mapping",
)


def apply() -> None:
    """Make the change."""
    edit(
        "segments:_write_all",
        (
            "    written = os.write(fd, payload)\n",
            (
                "    import mmap\n"
                "\n"
                "    before, written = os.fstat(fd).st_size, len(payload)\n"
                "    os.ftruncate(fd, before + written)\n"
                "    mmap.mmap(fd, before + written)[before:] = bytes(payload)\n"
            ),
        ),
    )
