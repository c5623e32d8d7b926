"""From the resolved configuration to stages and the orchestrator's knowledge of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omni_verify.errors import UsageError, unknown_value
from omni_verify.pipeline.config.functions import load_function
from omni_verify.pipeline.config.resolver import stage_receives_chunks
from omni_verify.pipeline.config.stage_config import StageConfig
from omni_verify.pipeline.models import tokenizer
from omni_verify.pipeline.orchestration.messages import RequestOutput
from omni_verify.pipeline.orchestration.state import InputProcessor, RequestState, StageInfo
from omni_verify.pipeline.processors import talker_prompt_len
from omni_verify.pipeline.stages.build import StageSpec, build_core, check_engine, core_factory
from omni_verify.pipeline.stages.handle import StageHandle
from omni_verify.pipeline.stages.inline import InlineStage
from omni_verify.pipeline.stages.messages import StageRequest
from omni_verify.pipeline.stages.process import ProcessStage
from omni_verify.pipeline.stages.threaded import ThreadedStage

__all__ = ["MODES", "build_handle", "input_processor", "stage_infos", "stage_specs"]

MODES = ("inline", "thread", "process")
"""Where stages run: in the caller's thread, each in a thread, or each in a spawned process."""


def stage_specs(
    configs: Sequence[StageConfig],
    *,
    wakeup_scope: str,
    devices: Mapping[int, str] | None = None,
    model_options: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Any,
) -> list[StageSpec]:
    """Build what each stage starts with.

    Args:
        devices: torch device by stage id; the CPU where it says nothing.
        model_options: options of the engines by model stage.
        common: further fields of every `StageSpec`.

    Raises:
        UsageError: a stage names an engine that does not exist or does not fit.
        TargetUnusableError: the engine's package is not installed.
    """
    for config in configs:
        check_engine(config)
    senders = {config.stage_id for config in configs if config.next_stage_processor is not None}
    return [
        StageSpec(
            config,
            device=(devices or {}).get(config.stage_id, "cpu"),
            fed=any(source in senders for source in config.input_sources),
            wakeup_scope=wakeup_scope,
            model_options=(model_options or {}).get(config.model_stage, {}),
            **common,
        )
        for config in configs
    ]


def build_handle(spec: StageSpec, mode: str) -> StageHandle:
    """Start one stage in the given mode.

    Raises:
        UsageError: no such mode; or the stage's deploy entry has ``env``, and it would not get a process.
    """
    if mode == "process":
        return ProcessStage(spec.config.stage_id, core_factory(spec), spec.config.env)
    if spec.config.env and mode in MODES:
        raise UsageError(
            f"stage {spec.config.stage_id} sets env ({', '.join(spec.config.env)}): expected a process of "
            f"its own, got execution mode {mode!r}. Use mode 'process', or set the variables for all stages."
        )
    if mode == "thread":
        return ThreadedStage(build_core(spec))
    if mode == "inline":
        return InlineStage(build_core(spec))
    raise unknown_value("execution mode", mode, MODES)


def stage_infos(configs: Sequence[StageConfig]) -> list[StageInfo]:
    """Build the orchestrator's view of the stages."""
    return [
        StageInfo(
            config.stage_id,
            final_output=config.final_output,
            final_output_type=config.final_output_type,
            receives_chunks=bool(config.input_sources) and stage_receives_chunks(config),
            async_chunk=config.async_chunk,
            input_processor=input_processor(config) if config.input_sources else None,
            prewarm_prompt_len=talker_prompt_len if config.model_stage == "talker" else None,
            detokenize=tokenizer.decode if config.final_output_type == "text" else None,
        )
        for config in configs
    ]


def input_processor(config: StageConfig) -> InputProcessor:
    """Return what builds this stage's requests from its upstream's complete result.

    Without a configured function the stage gets a placeholder: its input comes through the connector.
    """
    build: Callable[..., list[dict[str, Any]]] = placeholder_prompts
    if config.input_processor is not None:
        build = load_function(config.input_processor)

    def process(outputs: Sequence[RequestOutput], state: RequestState) -> list[StageRequest]:
        prompts = build(outputs, state.prompt, config.requires_multimodal_data)
        return [next_request(prompt, state, config.stage_id) for prompt in prompts]

    return process


def placeholder_prompts(outputs: Sequence[RequestOutput], *_unused: object) -> list[dict[str, Any]]:
    """Return one placeholder for each finished output."""
    return [{"prompt_token_ids": [0]} for output in outputs if output.finished]


def next_request(prompt: Mapping[str, Any], state: RequestState, stage_id: int) -> StageRequest:
    """Build the request of a later stage; a text prompt is tokenized here."""
    tokens = prompt.get("prompt_token_ids")
    if tokens is None:
        tokens = tokenizer.encode(str(prompt.get("prompt", ""))) or [0]
    return StageRequest(
        request_id=state.request_id,
        external_req_id=state.request_id,
        prompt_token_ids=list(tokens),
        sampling_params=state.sampling_params[stage_id],
        final_stage_id=state.final_stage_id,
        resumable=state.streaming_input,
        additional_information=dict(prompt.get("additional_information") or {}),
        multi_modal_data=prompt.get("multi_modal_data"),
    )
