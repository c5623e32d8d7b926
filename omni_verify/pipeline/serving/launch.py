"""From command-line choices to a running service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omni_verify.errors import UsageError, unknown_value
from omni_verify.pipeline.config.deploy_yaml import load_deploy_config, shipped_deploy_path
from omni_verify.pipeline.config.stage_config import StageConfig, merge_pipeline_deploy
from omni_verify.pipeline.config.topologies import get_topology, inject_forced_aligner_stage
from omni_verify.pipeline.orchestration.assembly import MODES
from omni_verify.pipeline.orchestration.pipeline import Pipeline

if TYPE_CHECKING:
    from omni_verify.pipeline.serving.service import Service

__all__ = ["LaunchOptions", "load_configs", "stage_devices", "start_service"]


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What a user may choose; see the help of ``omni-verify serve``."""

    model: str = "qwen3_omni_moe"
    mode: str = "process"
    deploy_config: Path | None = None
    async_chunk: bool | None = None
    forced_aligner: str | None = None
    served_model_name: str | None = None
    device: str = "cpu"
    input_wait_timeout_s: float = 600.0
    max_input_tokens: int = 32_768
    hold_timeout_s: float | None = None


def load_configs(options: LaunchOptions) -> tuple[StageConfig, ...]:
    """Resolve and check the whole configuration; nothing has been started when this raises.

    Raises:
        UsageError: any configuration error, with what to change.
    """
    if options.mode not in MODES or options.mode == "inline":
        raise unknown_value("mode", options.mode, ("process", "thread"))
    topology = get_topology(options.model)
    path = options.deploy_config
    if path is None:
        if topology.default_deploy_config_name is None:
            raise UsageError(f"pipeline {options.model!r} ships no deployment; give --deploy-config")
        path = shipped_deploy_path(topology.default_deploy_config_name)
    topology, deploy = inject_forced_aligner_stage(topology, load_deploy_config(path), options.forced_aligner)
    return merge_pipeline_deploy(topology, deploy, async_chunk=options.async_chunk)


def stage_devices(configs: Sequence[StageConfig], device: str) -> dict[int, str]:
    """Choose each stage's torch device.

    ``"cuda"`` follows the deployment (Thinker on GPU 0, the others on GPU 1) as far as the machine has
    so many GPUs; anything else is one device for all stages.
    """
    if device != "cuda":
        return {config.stage_id: device for config in configs}
    import torch

    count = torch.cuda.device_count()
    if count == 0:
        raise UsageError("device 'cuda' was asked for, but torch sees no CUDA device; use --device cpu")
    first = {config.stage_id: int((config.devices or "0").split(",")[0]) for config in configs}
    return {stage_id: f"cuda:{min(index, count - 1)}" for stage_id, index in first.items()}


def start_service(options: LaunchOptions, configs: Sequence[StageConfig]) -> Service:
    """Start the stages and build the service in front of them."""
    # Here, because the configuration and the stages are usable without the packages of the server.
    from omni_verify.pipeline.serving.service import Service

    limits = {} if options.hold_timeout_s is None else {"hold_timeout_s": options.hold_timeout_s}
    pipeline = Pipeline(
        configs,
        mode=options.mode,
        devices=stage_devices(configs, options.device),
        input_wait_timeout_s=options.input_wait_timeout_s,
        **limits,
    )
    return Service(
        pipeline, options.served_model_name or options.model, max_input_tokens=options.max_input_tokens
    )
