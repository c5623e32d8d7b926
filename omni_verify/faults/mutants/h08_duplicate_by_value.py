"""A frame that equals the one before is taken for a duplicate.

Silence disappears.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H08",
    breaks=("I13",),
    source="vllm-omni#7480",
    summary="a frame that equals the one before is taken for a duplicate",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.talker2code2wav:talker2code2wav_async_chunk",
        (
            ('frames.extend(valid_frames(rows, meta.get("codec_frame_valid"), stop_tokens_of(request)))'),
            (
                'for row in valid_frames(rows, meta.get("codec_frame_valid"), '
                "stop_tokens_of(request)):\n"
                "        if not frames or not torch.equal(row, frames[-1]):\n"
                "            frames.append(row)"
            ),
        ),
    )
