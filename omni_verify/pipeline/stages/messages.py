"""What travels between the orchestrator and a stage: one request down, outputs and events up.

The same objects serve the three execution modes. In process mode they are pickled over a pipe, so
they hold plain data and CPU tensors only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_verify.pipeline.stages.params import SamplingParams

__all__ = [
    "FinishReason",
    "StageDied",
    "StageEvent",
    "StageOutput",
    "StageReady",
    "StageRequest",
    "TransferReleased",
    "TransferSent",
]


class FinishReason(enum.StrEnum):
    """Why a stage finished a request."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(slots=True)
class StageRequest:
    """One request as a stage receives it.

    `request_id` is internal to the stage and `external_req_id` names the request on the wire; they
    are equal on every stage but the first. `final_stage_id` lets a producer know that
    nobody behind it will read (W19, vllm-omni#7245).
    """

    request_id: str
    external_req_id: str
    prompt_token_ids: list[int]
    sampling_params: SamplingParams
    final_stage_id: int
    resumable: bool = False
    additional_information: dict[str, Any] = field(default_factory=dict)
    multi_modal_data: dict[str, Any] | None = None


@dataclass(slots=True)
class StageOutput:
    """What one tick of a stage produced for one request.

    `token_ids` holds the new tokens only, `multimodal_output` the new data only, for example
    ``{"audio": Tensor[samples], "sr": 24000}``; accumulation happens behind the orchestrator.
    `unsent` says of an end that chunks are still queued; a `TransferSent` follows when they are put.
    """

    stage_id: int
    request_id: str
    token_ids: list[int] = field(default_factory=list)
    multimodal_output: dict[str, Any] | None = None
    finished: bool = False
    finish_reason: FinishReason | None = None
    segment_finished: bool = False
    error: str | None = None
    unsent: bool = False


@dataclass(frozen=True, slots=True)
class TransferSent:
    """Report that every chunk of a request that the stage has finished is put, its terminal included."""

    stage_id: int
    request_id: str


@dataclass(frozen=True, slots=True)
class TransferReleased:
    """Acknowledge one release batch: no transport object of these requests is left on the stage."""

    stage_id: int
    request_ids: tuple[str, ...]
    removed: int = 0


@dataclass(frozen=True, slots=True)
class StageDied:
    """Report that the stage's process ended; whatever it held is lost."""

    stage_id: int
    reason: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class StageReady:
    """Report that the stage accepts work, with the statistics it started from."""

    stage_id: int
    statistics: Mapping[str, float] = field(default_factory=dict)


StageEvent = StageOutput | TransferSent | TransferReleased | StageDied | StageReady
