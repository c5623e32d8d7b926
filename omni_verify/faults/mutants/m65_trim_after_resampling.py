"""Audio is resampled first and trimmed afterwards.

The counts belong to another rate.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M65",
    breaks=("I40",),
    source="vllm-omni#7544",
    summary="audio is resampled first and trimmed afterwards",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.audio_stream:prepare_samples",
        (
            (
                "    new = stream.trimmer.take(audio)\n"
                "    return stream.resample(new) if len(new) else np.zeros(0, dtype=np.float32)\n"
            ),
            (
                "    pieces = [\n"
                "        stream.resample(np.asarray(piece, dtype=np.float32).reshape(-1))\n"
                "        for piece in (audio if isinstance(audio, list) else [audio])\n"
                "    ]\n"
                "    return stream.trimmer.take(pieces if isinstance(audio, list) else pieces[0])\n"
            ),
        ),
    )
