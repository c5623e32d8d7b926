"""Topology and deployment: what the stages are, where they run, which edges carry chunks.

Nothing here imports torch, so a configuration can be checked on any machine.
"""

from __future__ import annotations

from omni_verify.pipeline.config.chunk_sizes import ChunkSizes
from omni_verify.pipeline.config.connector_config import build_connector_config
from omni_verify.pipeline.config.deploy import DeployConfig, StageDeployConfig
from omni_verify.pipeline.config.deploy_yaml import load_deploy_config, parse_deploy, shipped_deploy_path
from omni_verify.pipeline.config.edges import (
    validate_async_chunk_support,
    validate_chunk_receivers,
    validate_edges,
    validate_stage_async_chunk_edges,
)
from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.execution import StageExecutionType, scheduler_name
from omni_verify.pipeline.config.functions import load_function
from omni_verify.pipeline.config.resolver import (
    any_stage_async_chunk,
    resolve_stage_async_chunk,
    select_processor_funcs,
    stage_receives_chunks,
)
from omni_verify.pipeline.config.stage_config import (
    StageConfig,
    build_engine_args,
    build_stage_config,
    effective_deploy,
    merge_pipeline_deploy,
)
from omni_verify.pipeline.config.topologies import (
    QWEN3_OMNI,
    QWEN3_TTS,
    get_topology,
    inject_forced_aligner_stage,
    topology_names,
)
from omni_verify.pipeline.config.topology import PipelineConfig, StagePipelineConfig

__all__ = [
    "QWEN3_OMNI",
    "QWEN3_TTS",
    "ChunkSizes",
    "ConfigError",
    "DeployConfig",
    "PipelineConfig",
    "StageConfig",
    "StageDeployConfig",
    "StageExecutionType",
    "StagePipelineConfig",
    "any_stage_async_chunk",
    "build_connector_config",
    "build_engine_args",
    "build_stage_config",
    "effective_deploy",
    "get_topology",
    "inject_forced_aligner_stage",
    "load_deploy_config",
    "load_function",
    "merge_pipeline_deploy",
    "parse_deploy",
    "resolve_stage_async_chunk",
    "scheduler_name",
    "select_processor_funcs",
    "shipped_deploy_path",
    "stage_receives_chunks",
    "topology_names",
    "validate_async_chunk_support",
    "validate_chunk_receivers",
    "validate_edges",
    "validate_stage_async_chunk_edges",
]
