"""The one place that decides whether a stage works by chunks (I1, I2, I3, I5).

Scheduler, processor and connector must not answer the question separately: a scheduler that waits for
chunks behind a processor that builds a full payload waits for ever (vllm-omni#7544).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.topology import StagePipelineConfig

__all__ = [
    "any_stage_async_chunk",
    "check_async_chunk_type",
    "resolve_stage_async_chunk",
    "select_processor_funcs",
    "stage_processors",
    "stage_receives_chunks",
]


class HasAsyncChunk(Protocol):
    """A pipeline's or a stage's deployment, loaded or hand-built."""

    @property
    def async_chunk(self) -> bool | None:
        """The flag as configured."""


class ResolvedStage(Protocol):
    """A stage whose mode is decided."""

    @property
    def async_chunk(self) -> bool:
        """The resolved mode."""


def check_async_chunk_type(value: object, where: str, *, optional: bool) -> None:
    """Refuse a flag that is not a bool: ``"false"`` is truthy, and 0 ``is not False`` (I3).

    Raises:
        ConfigError: ``value`` is no bool (and no None where that means "inherit").
    """
    if isinstance(value, bool) or (optional and value is None):
        return
    valid = "true, false or absent" if optional else "true or false"
    raise ConfigError(
        f"async_chunk must be a boolean: {where} has {value!r} of type {type(value).__name__}. "
        f"Write {valid}, without quotes."
    )


def resolve_stage_async_chunk(deploy: HasAsyncChunk, stage: HasAsyncChunk | None) -> bool:
    """Return ``pipeline and stage is not False`` (I1; article section 4.2).

    Args:
        deploy: the pipeline's deployment.
        stage: the stage's entry, None where the deployment has none.

    Raises:
        ConfigError: a flag is no bool.
    """
    check_async_chunk_type(deploy.async_chunk, "the pipeline", optional=False)
    if stage is not None:
        where = f"stage {getattr(stage, 'stage_id', '?')}"
        check_async_chunk_type(stage.async_chunk, where, optional=True)
    return combine_flags(deploy.async_chunk, stage.async_chunk if stage is not None else None)


def combine_flags(pipeline: bool | None, stage: bool | None) -> bool:  # noqa: FBT001 - two flags of one kind
    """Combine the flags: None inherits, False opts out, True cannot lift a pipeline False."""
    return bool(pipeline and stage is not False)


def stage_processors(
    deploy: HasAsyncChunk, entry: HasAsyncChunk | None, stage: StagePipelineConfig
) -> tuple[str | None, str | None]:
    """Return the processors of a stage for its resolved mode: both builders take them from here (I2)."""
    return select_processor_funcs(stage, resolve_stage_async_chunk(deploy, entry))


def select_processor_funcs(stage: StagePipelineConfig, resolved: bool) -> tuple[str | None, str | None]:  # noqa: FBT001 - the public signature
    """Return (input processor, next-stage processor) as dotted paths or None (I2)."""
    if resolved:
        producer = stage.async_chunk_process_next_stage_input_func
        return stage.custom_process_input_func, producer or stage.custom_process_next_stage_input_func
    consumer = stage.sync_process_input_func or stage.custom_process_input_func
    return consumer, stage.custom_process_next_stage_input_func


def any_stage_async_chunk(stages: Iterable[ResolvedStage]) -> bool:
    """Say whether any stage works by chunks; stage 0 alone says nothing about the others (I5)."""
    return any(stage.async_chunk for stage in stages)


def stage_receives_chunks(model_config: Any) -> bool:
    """Say whether the stage is pre-submitted and waits for chunks.

    A missing attribute is an error and not "yes": a hand-built configuration would silently become a
    chunk consumer that nobody feeds (W33).

    Args:
        model_config: a stage's configuration with ``async_chunk`` and optionally
            ``stage_connector_config`` (mapping or object with ``extra``).

    Raises:
        ConfigError: ``async_chunk`` is missing or no bool.
    """
    if not hasattr(model_config, "async_chunk"):
        raise ConfigError(
            f"{type(model_config).__name__} has no async_chunk: whether a stage receives chunks must be "
            "decided by resolve_stage_async_chunk. Set the resolved value on the stage's configuration."
        )
    where = f"stage {getattr(model_config, 'stage_id', '?')}"
    check_async_chunk_type(model_config.async_chunk, where, optional=False)
    return bool(model_config.async_chunk) and connector_role(model_config) != "sender"


def connector_role(model_config: Any) -> str | None:
    """Return the role in the stage's connector configuration, if it is a string."""
    connector = getattr(model_config, "stage_connector_config", None)
    extra = connector.get("extra") if isinstance(connector, dict) else getattr(connector, "extra", None)
    role = extra.get("role") if extra else None
    return role if isinstance(role, str) else None
