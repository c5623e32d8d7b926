"""State of one live request at the orchestrator, and the questions that decide its life.

Each question is one function, so that a rule can be read, tested and replaced alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_verify.errors import UsageError
from omni_verify.pipeline.orchestration.accumulation import OutputAccumulator
from omni_verify.pipeline.orchestration.messages import OutputMessage, RequestOutput, Sink
from omni_verify.pipeline.stages.messages import FinishReason, StageOutput, StageRequest
from omni_verify.pipeline.stages.params import SamplingParams

__all__ = [
    "RequestState",
    "StageInfo",
    "all_submitted_stages_finished",
    "is_lost_with",
    "is_request_finished",
    "may_release",
    "must_hold_final",
    "needed_outputs",
    "should_forward",
    "stages_left_running",
    "stages_to_abort",
    "stages_to_prewarm",
    "upstream_without_consumer",
]

InputProcessor = Callable[[Sequence[RequestOutput], "RequestState"], list[StageRequest]]


@dataclass(frozen=True, slots=True)
class StageInfo:
    """What the orchestrator knows of a stage; the resolved configuration gives every field."""

    stage_id: int
    final_output: bool = False
    final_output_type: str | None = None
    receives_chunks: bool = False
    async_chunk: bool = False
    input_processor: InputProcessor | None = None
    prewarm_prompt_len: Callable[[Sequence[int]], int] | None = None
    detokenize: Callable[[Sequence[int]], str] | None = None


@dataclass(slots=True)
class RequestState:
    """Everything the orchestrator holds for one request; dropped as a whole at its end.

    `unsent_stage_ids` are stages that have finished the request and not yet put all of its chunks.
    """

    request_id: str
    prompt: Mapping[str, Any]
    sampling_params: Sequence[SamplingParams]
    final_stage_id: int
    final_output_stage_ids: frozenset[int]
    sink: Sink
    streaming_input: bool = False
    finished_final_output_stage_ids: set[int] = field(default_factory=set)
    finished_stage_ids: set[int] = field(default_factory=set)
    unsent_stage_ids: set[int] = field(default_factory=set)
    stage_submit_ts: dict[int, float] = field(default_factory=dict)
    accumulators: dict[int, OutputAccumulator] = field(default_factory=dict)
    pending_final_output: OutputMessage | None = None
    held_since: float | None = None

    def submitted(self, stage_id: int) -> bool:
        """Tell whether the stage has been given this request."""
        return stage_id in self.stage_submit_ts


def needed_outputs(
    stages: Sequence[StageInfo], modalities: Collection[str] | None
) -> tuple[int, frozenset[int]]:
    """Choose the final-output stages for the modalities asked for, and the last stage that is needed.

    Returns:
        ``(final_stage_id, final_output_stage_ids)``; without modalities every final output counts.

    Raises:
        UsageError: a modality that no stage of the pipeline yields.
    """
    offered = {stage.final_output_type: stage.stage_id for stage in stages if stage.final_output}
    wanted = set(modalities) if modalities else set(offered)
    unknown = sorted(str(name) for name in wanted - set(offered))
    if unknown:
        valid = sorted(str(name) for name in offered)
        raise UsageError(f"modalities {unknown} are not offered: this pipeline yields {valid}")
    chosen = frozenset(offered[name] for name in wanted)
    return max(chosen), chosen


def stages_to_prewarm(state: RequestState, stages: Sequence[StageInfo]) -> list[int]:
    """List the stages that get a placeholder now: those up to the final one that receive chunks (I8)."""
    return [
        stage.stage_id
        for stage in stages
        if 0 < stage.stage_id <= state.final_stage_id
        and stage.receives_chunks
        and not state.submitted(stage.stage_id)
    ]


def all_submitted_stages_finished(state: RequestState) -> bool:
    """Tell whether every stage that was given the request has reported its finish (I6)."""
    return set(state.stage_submit_ts) <= state.finished_stage_ids


def is_request_finished(state: RequestState) -> bool:
    """Tell whether every requested final-output stage has finished (first half of I6)."""
    return state.final_output_stage_ids <= state.finished_final_output_stage_ids


def is_lost_with(state: RequestState, stage_id: int) -> bool:
    """Tell whether the request cannot end well any more when this stage's process dies.

    So it is when the stage had not finished it; and when the stage had, but its queue still held chunks
    that the next stage waits for: they are gone, and that stage would wait for the stall time (I36, I46).
    Chunks that were put outlive their sender.
    """
    if stage_id > state.final_stage_id:
        return False
    if stage_id not in state.finished_stage_ids:
        return True
    reader = stage_id + 1
    reads = reader <= state.final_stage_id and reader not in state.finished_stage_ids
    return reads and stage_id in state.unsent_stage_ids


def must_hold_final(state: RequestState, *, async_chunk: bool) -> bool:
    """Tell whether the last message has to wait for a submitted stage that still runs.

    The decoder may finish before its upstream's own terminal output reaches the orchestrator.
    """
    return async_chunk and not state.streaming_input and not all_submitted_stages_finished(state)


def should_forward(
    state: RequestState, output: StageOutput, stages: Sequence[StageInfo], *, async_chunk: bool
) -> bool:
    """Tell whether this output is the complete result that the next stage waits for (I10)."""
    nxt = output.stage_id + 1
    return (
        (output.finished or output.segment_finished)
        and output.stage_id < state.final_stage_id
        and not (async_chunk and stages[nxt].receives_chunks)
        and (not state.submitted(nxt) or state.streaming_input)
    )


def upstream_without_consumer(
    state: RequestState, output: StageOutput, stages: Sequence[StageInfo], *, async_chunk: bool
) -> list[int]:
    """List the stages whose chunks nobody reads any more, because their consumer stopped early.

    A stage that ends by its own limit leaves its upstream producing. Stages with a requested final
    output of their own go on.
    """
    if output.finish_reason is not FinishReason.LENGTH or not async_chunk:
        return []
    idle: list[int] = []
    for stage_id in range(output.stage_id - 1, -1, -1):
        consumer = stages[stage_id + 1]
        if not consumer.receives_chunks or stage_id in state.final_output_stage_ids:
            break
        if state.submitted(stage_id) and stage_id not in state.finished_stage_ids:
            idle.append(stage_id)
    return idle


def stages_left_running(state: RequestState) -> list[int]:
    """List the stages that still hold the request when it ends, which must let go of it (I39, I51)."""
    return sorted(set(state.stage_submit_ts) - state.finished_stage_ids)


def stages_to_abort(state: RequestState, *, complete: bool) -> list[int]:
    """List the stages that must be told of the end.

    A request that did not complete is aborted on finished stages too: such a stage may still have a
    terminal to send, and would take a release for one that came too early.
    """
    return stages_left_running(state) if complete else sorted(state.stage_submit_ts)


def may_release(state: RequestState, *, ended: bool) -> bool:
    """Tell whether the request's transport objects may go: after the request's end and never before (I50).

    A stage that is done may have left a terminal chunk that its consumer still has to read.
    """
    return ended
