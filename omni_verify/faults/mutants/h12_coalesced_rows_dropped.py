"""Of several decode rows in one step only the last is sent.

Words are missing under load.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H12",
    breaks=("I13",),
    source="vllm-omni#4957",
    summary="of several decode rows in one step only the last is sent",
)


def apply() -> None:
    """Make the change."""
    edit(
        "processors.thinker2talker:thinker2talker_async_chunk",
        ("EmbeddingsStruct(decode=rows.embed)", "EmbeddingsStruct(decode=rows.embed[-1:])"),
    )
