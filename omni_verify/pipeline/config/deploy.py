"""What one deployment chooses: devices, connectors, chunk modes and engine limits per stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from omni_verify.pipeline.config.errors import ConfigError

__all__ = ["DeployConfig", "StageDeployConfig"]


@dataclass(frozen=True, slots=True)
class StageDeployConfig:
    """The deployment of one stage. None means "inherit the engine's default".

    Attributes:
        async_chunk: None inherits the pipeline's flag, False opts out, True cannot lift a pipeline
            False (I1, vllm-omni#7544).
        devices: device list as the file says it, for example ``"0"`` or ``"0,1"``.
        input_connectors: ``{"from_stage_K": connector name}``.
        output_connectors: ``{"to_stage_K": connector name}``.
        engine_extras: every key of the stage's entry that is not a field here.
    """

    stage_id: int
    devices: str | None = None
    num_replicas: int = 1
    env: Mapping[str, str] | None = None
    async_chunk: bool | None = None
    input_connectors: Mapping[str, str] | None = None
    output_connectors: Mapping[str, str] | None = None
    default_sampling_params: Mapping[str, Any] | None = None
    default_pooling_params: Mapping[str, Any] | None = None
    async_scheduling: bool | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    enforce_eager: bool | None = None
    enable_chunked_prefill: bool | None = None
    enable_prefix_caching: bool | None = None
    engine_extras: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def field_names(cls) -> frozenset[str]:
        """Return the keys of a stage entry that are fields and not engine extras."""
        return frozenset(item.name for item in fields(cls)) - {"engine_extras"}


@dataclass(frozen=True, slots=True)
class DeployConfig:
    """The deployment of a whole pipeline.

    The types of ``async_chunk`` are checked where the mode is resolved and not here, so that a
    hand-built object of any class meets the same check (I3).

    Raises:
        ConfigError: ``model_runner`` is neither ``"v1"`` nor ``"v2"``.
    """

    async_chunk: bool = True
    session_mode: str = "turn"
    model_runner: str = "v1"
    active_stream_window: int = 0
    connectors: Mapping[str, Mapping[str, Any]] | None = None
    edges: tuple[Mapping[str, Any], ...] | None = None
    stages: tuple[StageDeployConfig, ...] = ()
    platforms: Mapping[str, Any] | None = None
    pipeline: str | None = None
    trust_remote_code: bool | None = None
    distributed_executor_backend: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    data_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    custom_voice_dir: str | None = None

    def __post_init__(self) -> None:
        if self.model_runner not in ("v1", "v2"):
            raise ConfigError(f"model_runner must be 'v1' or 'v2', got {self.model_runner!r}.")

    def get_stage(self, stage_id: int) -> StageDeployConfig | None:
        """Return the entry of this stage, or None: the stage then inherits everything."""
        return next((stage for stage in self.stages if stage.stage_id == stage_id), None)
