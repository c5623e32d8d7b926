"""Checks of a pipeline's edges, made once at start: a wrong edge shows otherwise as a 600 s wait.

Every message names both ends of the edge and says what to change.
"""

from __future__ import annotations

from omni_verify.pipeline.config.deploy import DeployConfig
from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.resolver import resolve_stage_async_chunk
from omni_verify.pipeline.config.topology import PipelineConfig, StagePipelineConfig

__all__ = [
    "async_chunk_edges",
    "validate_async_chunk_support",
    "validate_chunk_receivers",
    "validate_edges",
    "validate_stage_async_chunk_edges",
]


def async_chunk_edges(
    pipeline: PipelineConfig,
) -> tuple[tuple[StagePipelineConfig, StagePipelineConfig], ...]:
    """Return the edges whose producer declares a chunk processor; the others hand over full results."""
    return tuple(edge for edge in pipeline.edges() if edge[0].async_chunk_process_next_stage_input_func)


def stage_mode(deploy: DeployConfig, stage: StagePipelineConfig) -> bool:
    """Return the resolved mode of a topology stage."""
    return resolve_stage_async_chunk(deploy, deploy.get_stage(stage.stage_id))


def validate_stage_async_chunk_edges(pipeline: PipelineConfig, deploy: DeployConfig) -> None:
    """Require the same mode at both ends of every chunked edge (I4; article section 4.3).

    Raises:
        ConfigError: the ends differ; the message names both.
    """
    for producer, consumer in async_chunk_edges(pipeline):
        sends, receives = stage_mode(deploy, producer), stage_mode(deploy, consumer)
        if sends != receives:
            a, b = producer.stage_id, consumer.stage_id
            raise ConfigError(
                f"Pipeline {pipeline.model_type!r} has incompatible async_chunk settings on connector edge "
                f"{a} -> {b}. Stage {a} ({producer.model_stage}) resolves to {sends}, stage {b} "
                f"({consumer.model_stage}) to {receives}; the edge sends chunks, so both ends must agree. "
                f"Set async_chunk of stage {a} and of stage {b} to the same value."
            )


def validate_chunk_receivers(pipeline: PipelineConfig, deploy: DeployConfig) -> None:
    """Require a chunk-producing source behind every stage that receives chunks (I4b, W12).

    The edge check above skips an edge without a chunk producer, so a forced aligner with
    ``async_chunk: true`` passes it and then waits for chunks that nobody sends (vllm-omni#7544).

    Raises:
        ConfigError: a source of a chunk-receiving stage declares no chunk processor.
    """
    for producer, consumer in pipeline.edges():
        if not producer.async_chunk_process_next_stage_input_func and stage_mode(deploy, consumer):
            a, b = producer.stage_id, consumer.stage_id
            raise ConfigError(
                f"Pipeline {pipeline.model_type!r}: stage {b} ({consumer.model_stage}) resolves to "
                f"async_chunk=True, but stage {a} ({producer.model_stage}) on edge {a} -> {b} declares no "
                f"async_chunk_process_next_stage_input_func and never sends a chunk. Set async_chunk: false "
                f"on stage {b}, or declare a chunk processor on stage {a}."
            )


def validate_async_chunk_support(pipeline: PipelineConfig, deploy: DeployConfig) -> None:
    """Refuse chunk mode where no stage can produce a chunk, or together with a KV transfer.

    Raises:
        ConfigError: either holds.
    """
    if not resolve_stage_async_chunk(deploy, None):
        return
    edges = pipeline.edges()
    if edges and not async_chunk_edges(pipeline):
        named = ", ".join(f"{a.stage_id} -> {b.stage_id}" for a, b in edges)
        raise ConfigError(
            f"Pipeline {pipeline.model_type!r} does not support async_chunk: none of its edges ({named}) "
            "starts at a stage with an async_chunk_process_next_stage_input_func. Set async_chunk: false."
        )
    for stage in deploy.stages:
        if stage.engine_extras.get("kv_transfer_config"):
            raise ConfigError(
                f"Pipeline {pipeline.model_type!r}: async_chunk: true cannot be combined with "
                f"kv_transfer_config of stage {stage.stage_id}. Remove one of the two."
            )


def validate_edges(pipeline: PipelineConfig, deploy: DeployConfig, *, strict: bool = True) -> None:
    """Run every edge check; ``strict=False`` leaves out I4b, as the real releases do."""
    validate_async_chunk_support(pipeline, deploy)
    validate_stage_async_chunk_edges(pipeline, deploy)
    if strict:
        validate_chunk_receivers(pipeline, deploy)
