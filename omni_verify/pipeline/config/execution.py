"""How a stage executes, and which scheduler and worker follow from it.

``async_chunk`` (increments on a stage edge), ``async_scheduling`` (overlap inside one stage) and the
client's own streaming are three independent choices (article section 1.2): nothing here reads
``async_chunk``.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StageExecutionType", "scheduler_name", "stage_type", "worker_type"]


class StageExecutionType(StrEnum):
    """The kind of engine that runs a stage."""

    LLM_AR = "llm_ar"
    LLM_GENERATION = "llm_generation"
    DIFFUSION = "diffusion"


def stage_type(execution: StageExecutionType) -> str:
    """Return ``"llm"`` or ``"diffusion"``; Code2Wav is ``llm`` although it makes audio."""
    return "diffusion" if execution is StageExecutionType.DIFFUSION else "llm"


def worker_type(execution: StageExecutionType) -> str | None:
    """Return ``"ar"``, ``"generation"`` or None (diffusion has no worker of this kind)."""
    return {StageExecutionType.LLM_AR: "ar", StageExecutionType.LLM_GENERATION: "generation"}.get(execution)


def scheduler_name(execution: StageExecutionType, *, async_scheduling: bool = True) -> str | None:
    """Return the scheduler's name; only an AR stage lets ``async_scheduling`` choose."""
    if execution is StageExecutionType.LLM_GENERATION:
        return "OmniGenerationScheduler"
    if execution is StageExecutionType.DIFFUSION:
        return None
    return "OmniARAsyncScheduler" if async_scheduling else "OmniARScheduler"
