"""Stages: a scheduler, a model runner and a transfer adapter, in one of three execution modes."""

from omni_verify.pipeline.stages.handle import StageHandle, StageUnavailableError
from omni_verify.pipeline.stages.messages import FinishReason, StageOutput, StageRequest
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams

__all__ = [
    "FinishReason",
    "RequestOutputKind",
    "SamplingParams",
    "StageHandle",
    "StageOutput",
    "StageRequest",
    "StageUnavailableError",
]
