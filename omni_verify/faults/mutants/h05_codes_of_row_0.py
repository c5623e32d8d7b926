"""Every request of a batch is decoded from the codes of the first.

All clients hear the same voice.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H05",
    breaks=("I48",),
    source="vllm-omni#4415",
    summary="every request of a batch is decoded from the codes of the first",
)


def apply() -> None:
    """Make the change."""
    edit(
        "code2wav.decode:generate_audio",
        ("row_from_request(prompt, info,", "row_from_request(prompts[0], info,"),
    )
