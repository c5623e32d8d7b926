"""Joins topology and deployment into what each stage process starts with.

Two builders exist, as in the public releases: the structured configuration and the legacy engine
arguments. Both, the connector's configuration and the choice of processors take the mode from the same
resolver (I2); a stage whose scheduler and processor disagree hangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omni_verify.pipeline.config import resolver
from omni_verify.pipeline.config.connector_config import build_connector_config, validate_connectors
from omni_verify.pipeline.config.deploy import DeployConfig, StageDeployConfig
from omni_verify.pipeline.config.deploy_yaml import apply_platform
from omni_verify.pipeline.config.edges import validate_edges
from omni_verify.pipeline.config.execution import (
    StageExecutionType,
    scheduler_name,
    stage_type,
    worker_type,
)
from omni_verify.pipeline.config.functions import load_function
from omni_verify.pipeline.config.topology import PipelineConfig, StagePipelineConfig

__all__ = [
    "StageConfig",
    "build_engine_args",
    "build_stage_config",
    "effective_deploy",
    "merge_pipeline_deploy",
]


@dataclass(frozen=True, slots=True)
class StageConfig:
    """Everything one stage needs to start; plain data, so that it can cross to a spawned process.

    Attributes:
        async_chunk: the resolved mode.
        input_processor: dotted path, orchestrator side, or None.
        next_stage_processor: dotted path, producer side, or None.
        stage_connector_config: ``{"name", "extra"}`` of the stage's own connector object.
        default_sampling_params: the deployment's values under the topology's constraints.
    """

    stage_id: int
    model_stage: str
    execution_type: StageExecutionType
    stage_type: str
    worker_type: str | None
    scheduler: str | None
    input_sources: tuple[int, ...]
    final_output: bool
    final_output_type: str | None
    owns_tokenizer: bool
    requires_multimodal_data: bool
    requires_full_payload_input: bool
    async_chunk: bool
    input_processor: str | None
    next_stage_processor: str | None
    devices: str | None
    num_replicas: int
    env: Mapping[str, str]
    stage_connector_config: Mapping[str, Any]
    default_sampling_params: Mapping[str, Any]
    default_pooling_params: Mapping[str, Any] | None
    active_stream_window: int
    engine_args: Mapping[str, Any]

    @property
    def is_pooling(self) -> bool:
        """Say whether the stage returns pooled outputs (the forced aligner) instead of tokens."""
        return self.engine_args.get("runner") == "pooling"


def effective_deploy(
    pipeline: PipelineConfig,
    deploy: DeployConfig,
    *,
    async_chunk: bool | None = None,
    platform: str | None = None,
) -> DeployConfig:
    """Apply what outranks the deploy file: the command line's flag, the platform, one stage only.

    Args:
        pipeline: the topology; with a single stage there is no edge, so chunk mode is off (I1).
        deploy: the loaded deployment.
        async_chunk: the command line's flag, None where it was not given.
        platform: name of the platform overlay, for example ``"cuda"``.
    """
    if async_chunk is not None:
        resolver.check_async_chunk_type(async_chunk, "the command line", optional=False)
        deploy = replace(deploy, async_chunk=async_chunk)
    deploy = apply_platform(deploy, platform)
    resolver.check_async_chunk_type(deploy.async_chunk, "the pipeline", optional=False)
    return replace(deploy, async_chunk=False) if len(pipeline.stages) == 1 else deploy


def merge_pipeline_deploy(
    pipeline: PipelineConfig,
    deploy: DeployConfig,
    *,
    async_chunk: bool | None = None,
    platform: str | None = None,
    strict: bool = True,
) -> tuple[StageConfig, ...]:
    """Check the whole configuration and return one :class:`StageConfig` per stage, in topology order.

    Raises:
        ConfigError: anything that could not run, found before any stage starts.
    """
    deploy = effective_deploy(pipeline, deploy, async_chunk=async_chunk, platform=platform)
    for stage in pipeline.stages:
        resolver.resolve_stage_async_chunk(deploy, deploy.get_stage(stage.stage_id))
    validate_edges(pipeline, deploy, strict=strict)
    validate_connectors(pipeline, deploy)
    configs = tuple(build_stage_config(pipeline, deploy, stage) for stage in pipeline.stages)
    for config in configs:
        for path in (config.input_processor, config.next_stage_processor):
            if path is not None:
                load_function(path, where=f"stage {config.stage_id} ({config.model_stage})")
    return configs


def build_stage_config(
    pipeline: PipelineConfig, deploy: DeployConfig, stage: StagePipelineConfig
) -> StageConfig:
    """Build the structured configuration of one stage of an effective deployment."""
    deploy = effective_deploy(pipeline, deploy)
    given = deploy.get_stage(stage.stage_id)
    entry = given or StageDeployConfig(stage.stage_id)
    resolved = resolver.resolve_stage_async_chunk(deploy, given)
    input_processor, next_processor = resolver.stage_processors(deploy, given, stage)
    return StageConfig(
        stage_id=stage.stage_id,
        model_stage=stage.model_stage,
        execution_type=stage.execution_type,
        stage_type=stage_type(stage.execution_type),
        worker_type=worker_type(stage.execution_type),
        scheduler=stage_scheduler(stage, entry),
        input_sources=stage.input_sources,
        final_output=stage.final_output,
        final_output_type=stage.final_output_type,
        owns_tokenizer=stage.owns_tokenizer,
        requires_multimodal_data=stage.requires_multimodal_data,
        requires_full_payload_input=stage.requires_full_payload_input,
        async_chunk=resolved,
        input_processor=input_processor,
        next_stage_processor=next_processor,
        devices=entry.devices,
        num_replicas=entry.num_replicas,
        env={str(name): str(value) for name, value in (entry.env or {}).items()},
        stage_connector_config=build_connector_config(pipeline, deploy, stage),
        default_sampling_params={**(entry.default_sampling_params or {}), **stage.sampling_constraints},
        default_pooling_params=entry.default_pooling_params,
        active_stream_window=deploy.active_stream_window,
        engine_args=build_engine_args(pipeline, deploy, stage),
    )


def build_engine_args(
    pipeline: PipelineConfig, deploy: DeployConfig, stage: StagePipelineConfig
) -> dict[str, Any]:
    """Build the legacy engine arguments of one stage: pipeline-wide, then the stage's, then resolved ones."""
    deploy = effective_deploy(pipeline, deploy)
    given = deploy.get_stage(stage.stage_id)
    entry = given or StageDeployConfig(stage.stage_id)
    resolved = resolver.resolve_stage_async_chunk(deploy, given)
    input_processor, next_processor = resolver.stage_processors(deploy, given, stage)
    args = {name: getattr(deploy, name) for name in PIPELINE_FIELDS if getattr(deploy, name) is not None}
    args.update({name: getattr(entry, name) for name in STAGE_FIELDS if getattr(entry, name) is not None})
    args.update(entry.engine_extras)
    scheduler = stage_scheduler(stage, entry)
    if stage.execution_type is StageExecutionType.LLM_AR:
        args["async_scheduling"] = scheduler == "OmniARAsyncScheduler"
    args.update(
        stage_id=stage.stage_id,
        model_stage=stage.model_stage,
        model_arch=stage.model_arch,
        worker_type=worker_type(stage.execution_type),
        engine_output_type=stage.engine_output_type,
        scheduler_cls=scheduler,
        model_runner=deploy.model_runner,
        async_chunk=resolved,
        custom_process_input_func=input_processor,
        custom_process_next_stage_input_func=next_processor,
    )
    return args


def stage_scheduler(stage: StagePipelineConfig, entry: StageDeployConfig) -> str | None:
    """Return the scheduler of a stage; ``async_scheduling`` defaults to True."""
    if stage.scheduler_cls is not None:
        return stage.scheduler_cls
    return scheduler_name(stage.execution_type, async_scheduling=entry.async_scheduling is not False)


PIPELINE_FIELDS = (
    "trust_remote_code",
    "distributed_executor_backend",
    "dtype",
    "quantization",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "data_parallel_size",
    "pipeline_parallel_size",
    "custom_voice_dir",
)
STAGE_FIELDS = (
    "async_scheduling",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "gpu_memory_utilization",
    "enforce_eager",
    "enable_chunked_prefill",
    "enable_prefix_caching",
)
