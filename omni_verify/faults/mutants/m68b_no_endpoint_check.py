"""A streaming response with word timestamps is accepted over HTTP.

The engine starts work whose result this endpoint cannot deliver.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M68b",
    breaks=("I42b",),
    source="vllm-omni#7544",
    summary="a streaming response with word timestamps is accepted over HTTP",
)


def apply() -> None:
    """Make the change."""
    edit(
        "serving.refusals:check_speech_request",
        ("if body.word_timestamps and body.is_streaming:", "if False:"),
    )
