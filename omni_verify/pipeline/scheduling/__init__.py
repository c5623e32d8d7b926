"""Schedulers: who runs in the next step of a stage, and when a request ends there."""

from omni_verify.pipeline.scheduling.ar import OmniARAsyncScheduler, OmniARScheduler
from omni_verify.pipeline.scheduling.base import StageScheduler
from omni_verify.pipeline.scheduling.generation import OmniGenerationScheduler
from omni_verify.pipeline.scheduling.output import RunnerOutput, SchedulerOutput

__all__ = [
    "OmniARAsyncScheduler",
    "OmniARScheduler",
    "OmniGenerationScheduler",
    "RunnerOutput",
    "SchedulerOutput",
    "StageScheduler",
]
