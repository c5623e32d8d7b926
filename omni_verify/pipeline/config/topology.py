"""Which stages a pipeline has and which edge calls which function: fixed per model, never per deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.execution import StageExecutionType

__all__ = ["PipelineConfig", "StagePipelineConfig", "topology_errors"]


@dataclass(frozen=True, slots=True)
class StagePipelineConfig:
    """One stage of a topology. Every ``*_func`` is a dotted path ``package.module.function``.

    Attributes:
        input_sources: ids of the stages that feed this one; empty for the first stage.
        custom_process_input_func: orchestrator side, builds this stage's prompt from the finished
            output of its source.
        sync_process_input_func: used instead of it when the stage does not receive chunks.
        custom_process_next_stage_input_func: producer side, one full payload.
        async_chunk_process_next_stage_input_func: producer side, one payload per chunk. Declaring it
            makes the edge to every consumer a chunked edge, so both ends must agree on the mode (I4).
    """

    stage_id: int
    model_stage: str
    execution_type: StageExecutionType = StageExecutionType.LLM_AR
    input_sources: tuple[int, ...] = ()
    final_output: bool = False
    final_output_type: str | None = None
    owns_tokenizer: bool = False
    requires_multimodal_data: bool = False
    hf_config_name: str | None = None
    engine_output_type: str | None = None
    model_arch: str | None = None
    retains_state_across_chunks: bool = False
    sampling_constraints: Mapping[str, Any] = field(default_factory=dict)
    custom_process_input_func: str | None = None
    custom_process_next_stage_input_func: str | None = None
    async_chunk_process_next_stage_input_func: str | None = None
    sync_process_input_func: str | None = None
    supports_native_mrv2_data_plane: bool = False
    requires_full_payload_input: bool = False
    scheduler_cls: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The stages of one model.

    Raises:
        ConfigError: the topology is impossible; the message lists every reason.
    """

    model_type: str
    stages: tuple[StagePipelineConfig, ...]
    default_deploy_config_name: str | None = None

    def __post_init__(self) -> None:
        errors = topology_errors(self.stages)
        if errors:
            raise ConfigError(
                f"PipelineConfig initialization failed with the following error(s): {'; '.join(errors)}. "
                f"Correct the stages of pipeline {self.model_type!r}."
            )

    def get_stage(self, stage_id: int) -> StagePipelineConfig | None:
        """Return the stage with this id, or None."""
        return next((stage for stage in self.stages if stage.stage_id == stage_id), None)

    def edges(self) -> tuple[tuple[StagePipelineConfig, StagePipelineConfig], ...]:
        """Return every (producer, consumer) pair, in the order of the consumers."""
        by_id = {stage.stage_id: stage for stage in self.stages}
        return tuple((by_id[source], stage) for stage in self.stages for source in stage.input_sources)


def topology_errors(stages: tuple[StagePipelineConfig, ...]) -> list[str]:
    """Return every reason why these stages form no pipeline; empty when they do.

    Cycles are not looked for: an edge of the adapter always goes from stage k to k+1.
    """
    if not stages:
        return ["no stages"]
    counts = Counter(stage.stage_id for stage in stages)
    errors = [f"stage id {sid} is declared {n} times" for sid, n in sorted(counts.items()) if n > 1]
    for stage in stages:
        for source in stage.input_sources:
            if source == stage.stage_id:
                errors.append(f"stage {stage.stage_id} names itself as an input source")
            elif source not in counts:
                errors.append(f"stage {stage.stage_id} reads from stage {source}, which does not exist")
    if all(stage.input_sources for stage in stages):
        errors.append("no entry stage: one stage needs empty input_sources")
    if not any(stage.final_output for stage in stages):
        errors.append("no stage has final_output=True")
    return errors
