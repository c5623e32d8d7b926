"""Build a stage from its configuration, in whatever process it will run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from omni_verify.contracts.payload_schema import OmniPayloadStruct, to_struct
from omni_verify.errors import UsageError, unknown_value
from omni_verify.pipeline.config.execution import StageExecutionType
from omni_verify.pipeline.config.functions import load_function
from omni_verify.pipeline.config.stage_config import StageConfig
from omni_verify.pipeline.models import (
    ArEngine,
    Code2WavDecoder,
    ForcedAligner,
    Talker,
    TalkerEngine,
    Thinker,
    ThinkerEngine,
)
from omni_verify.pipeline.scheduling import (
    OmniARAsyncScheduler,
    OmniARScheduler,
    OmniGenerationScheduler,
    StageScheduler,
)
from omni_verify.pipeline.scheduling.base import INPUT_WAIT_TIMEOUT_S
from omni_verify.pipeline.stages.core import ModelRunner, StageCore
from omni_verify.pipeline.stages.process_main import CoreFactory
from omni_verify.pipeline.stages.runners import AlignerRunner, ArRunner, Code2WavRunner
from omni_verify.pipeline.transfer_adapter import OmniChunkTransferAdapter

__all__ = [
    "AR_ENGINES",
    "StageSpec",
    "build_adapter",
    "build_core",
    "build_runner",
    "build_scheduler",
    "check_engine",
    "core_factory",
]

AR_ENGINES = ("builtin", "vllm")
"""Values of the key ``ar_engine`` in a stage's entry of the deploy file; the first is the default."""


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Everything that a stage needs to start; picklable.

    Attributes:
        device: where the model runs, for example ``"cuda:1"``.
        last: the stage ends the pipeline's connector edges, so it sends nothing.
        fed: an upstream stage sends chunks or a full payload through the connector.
        wakeup_scope: names the arrival hints that this pipeline's stages share.
        model_options: keyword arguments of the stage's engine, for example ``frames_per_condition``.
    """

    config: StageConfig
    device: str = "cpu"
    last: bool = False
    fed: bool = False
    wakeup_scope: str = "omni"
    input_wait_timeout_s: float = INPUT_WAIT_TIMEOUT_S
    model_options: Mapping[str, Any] = field(default_factory=dict)


def core_factory(spec: StageSpec) -> CoreFactory:
    """Return a picklable function that builds the stage in another process."""
    return partial(_build_in_process, spec)


def _build_in_process(spec: StageSpec, successor: bool) -> StageCore:  # noqa: FBT001 - a callback
    # A stage is one of several processes on the host: each with a thread a core would thrash.
    torch.set_num_threads(1)
    return build_core(spec, successor=successor)


def build_core(spec: StageSpec, *, successor: bool = False) -> StageCore:
    """Build scheduler, runner and adapter of one stage; the adapter's threads start here."""
    runner = build_runner(spec)
    adapter = build_adapter(spec)
    scheduler = build_scheduler(spec, adapter)
    return StageCore(spec.config.stage_id, scheduler, runner, adapter, successor=successor)


def build_adapter(spec: StageSpec) -> OmniChunkTransferAdapter | None:
    """Build the transfer adapter, or None for a stage without a connector edge.

    A full payload travels as a stream of one chunk, so the same adapter serves it; only the
    processor differs, and the sending scheduler waits for the end.
    """
    config = spec.config
    if not spec.fed and config.next_stage_processor is None:
        return None
    connector = config.stage_connector_config
    extra = {**connector["extra"], "wakeup_scope": spec.wakeup_scope}
    if not spec.fed:
        extra["role"] = "sender"
    max_num_seqs = int(config.engine_args.get("max_num_seqs", 64))
    model_config = SimpleNamespace(
        stage_id=config.stage_id,
        worker_type=config.worker_type,
        async_chunk=True,
        stage_connector_config={"name": connector["name"], "extra": extra},
        custom_process_next_stage_input_func=config.next_stage_processor,
        active_stream_window=config.active_stream_window,
        max_num_seqs=max_num_seqs,
        max_model_len=config.engine_args.get("max_model_len"),
        hf_config=None,
    )
    adapter = OmniChunkTransferAdapter(
        SimpleNamespace(
            model_config=model_config, scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs)
        )
    )
    if not config.async_chunk and config.next_stage_processor is not None:
        adapter.custom_process_next_stage_input_func = partial(
            full_payload_struct, load_function(config.next_stage_processor)
        )
    return adapter


def full_payload_struct(
    processor: Any,
    transfer_manager: Any,
    multimodal_output: Any,
    request: Any,
    is_finished: bool = True,  # noqa: FBT001
) -> OmniPayloadStruct | None:
    """Run a full-payload processor, which returns a plain dict, and check it against the schema."""
    payload = processor(transfer_manager, multimodal_output, request, is_finished)
    if payload is None:
        return None
    codes = dict(payload.get("codes") or {})
    if isinstance(codes.get("audio"), list):
        codes["audio"] = torch.tensor(codes["audio"], dtype=torch.int64)
        payload = {**payload, "codes": codes}
    return to_struct(payload)


def build_scheduler(spec: StageSpec, adapter: OmniChunkTransferAdapter | None) -> StageScheduler:
    """Build the scheduler that the execution type asks for."""
    config = spec.config
    limits: dict[str, Any] = {"input_wait_timeout_s": spec.input_wait_timeout_s}
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        if config.engine_args.get(name) is not None:
            limits[name] = int(config.engine_args[name])
    if config.execution_type is StageExecutionType.LLM_GENERATION:
        return OmniGenerationScheduler(config.stage_id, adapter, **limits)
    kind = OmniARAsyncScheduler if config.scheduler == "OmniARAsyncScheduler" else OmniARScheduler
    return kind(config.stage_id, adapter, full_payload=not config.async_chunk, **limits)


def build_runner(spec: StageSpec) -> ModelRunner:
    """Build the model of a stage on its device, and what drives it."""
    config, options = spec.config, dict(spec.model_options)
    device = torch.device(spec.device)
    match config.model_stage:
        case "thinker":
            return ArRunner(build_thinker(config, device, options), receives_payloads=False)
        case "talker":
            return ArRunner(build_talker(config, device, options), receives_payloads=spec.fed)
        case "code2wav":
            return Code2WavRunner(Code2WavDecoder(**options).to(device), async_chunk=config.async_chunk)
        case "forced_aligner":
            return AlignerRunner(ForcedAligner(**options).to(device))
    raise unknown_value(
        f"model_stage of stage {config.stage_id}",
        config.model_stage,
        ("thinker", "talker", "code2wav", "forced_aligner"),
    )


def build_thinker(config: StageConfig, device: torch.device, options: Mapping[str, Any]) -> ArEngine:
    """Build the Thinker with the engine that the configuration names."""
    model = Thinker().to(device)
    if ar_engine_of(config) == "builtin":
        return ThinkerEngine(model, **options)
    from omni_verify.pipeline.models.vllm_engine import VllmThinkerEngine, VllmTokens

    return VllmThinkerEngine(model, VllmTokens(), **options)


def build_talker(config: StageConfig, device: torch.device, options: Mapping[str, Any]) -> ArEngine:
    """Build the Talker with the engine that the configuration names."""
    model, reads_text = Talker().to(device), not config.input_sources
    if ar_engine_of(config) == "builtin":
        return TalkerEngine(model, reads_text=reads_text, **options)
    from omni_verify.pipeline.models.vllm_engine import VllmTalkerEngine, VllmTokens

    return VllmTalkerEngine(model, VllmTokens(), reads_text=reads_text, **options)


def ar_engine_of(config: StageConfig) -> str:
    """Return which engine runs an AR stage: the deployment's ``ar_engine``, by default the built-in one.

    Raises:
        UsageError: an unknown engine.
    """
    name = config.engine_args.get("ar_engine", AR_ENGINES[0])
    if name not in AR_ENGINES:
        raise unknown_value(f"ar_engine of stage {config.stage_id} ({config.model_stage})", name, AR_ENGINES)
    return str(name)


def check_engine(config: StageConfig) -> None:
    """Check, before anything starts, that the stage's engine can run here.

    Raises:
        UsageError: an unknown engine, or an engine for a stage that is not autoregressive.
        TargetUnusableError: its package is not installed.
    """
    if "ar_engine" not in config.engine_args:
        return
    if config.model_stage not in ("thinker", "talker"):
        raise UsageError(
            f"stage {config.stage_id} ({config.model_stage}) has ar_engine "
            f"{config.engine_args['ar_engine']!r}, but only the thinker and the talker are autoregressive. "
            "Drop the key."
        )
    if ar_engine_of(config) == "vllm":
        from omni_verify.pipeline.models.vllm_engine import require_vllm

        require_vllm(f"stage {config.stage_id} ({config.model_stage})")
