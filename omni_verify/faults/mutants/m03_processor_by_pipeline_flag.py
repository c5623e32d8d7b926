"""Processors are chosen by the pipeline's flag.

A stage that opted out waits for chunks behind a processor for full payloads, or the other way round.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M3",
    breaks=("I2",),
    source="vllm-omni#7505",
    summary="processors are chosen by the pipeline's flag",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:stage_processors",
        ("resolve_stage_async_chunk(deploy, entry)", "bool(deploy.async_chunk)"),
    )
