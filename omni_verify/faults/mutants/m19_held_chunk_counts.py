"""A chunk that was held counts as sent.

The window moves past frames that were never put.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M19",
    breaks=("I13",),
    source="vllm-omni#4582",
    summary="a chunk that was held counts as sent",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.talker2code2wav:talker2code2wav_async_chunk",
        (
            "    if window is None:\n",
            (
                "    if window is None:\n"
                "        transfer_manager.ramp_chunk_count[ext] = chunks_put(transfer_manager, "
                "ext) + 1\n"
            ),
        ),
    )
