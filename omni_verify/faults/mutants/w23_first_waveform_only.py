"""Of a list of waveforms the aligner takes the first.

Words are timed for the first piece only.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W23",
    breaks=("I49",),
    source="weak spot W23",
    summary="of a list of waveforms the aligner takes the first",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.aligner:waveform_of",
        ("pieces = audio if", "pieces = audio[:1] if"),
    )
