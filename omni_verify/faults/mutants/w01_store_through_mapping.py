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
                "    os.ftruncate(fd, len(payload))\n"
                "    mmap.mmap(fd, len(payload))[:] = bytes(payload)\n"
                "    written = len(payload)\n"
            ),
        ),
    )
