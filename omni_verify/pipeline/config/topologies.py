"""The shipped topologies: Qwen3-Omni and Qwen3-TTS, and the optional forced aligner behind either."""

from __future__ import annotations

from dataclasses import replace

from omni_verify.errors import unknown_value
from omni_verify.pipeline.config.deploy import DeployConfig, StageDeployConfig
from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.execution import StageExecutionType
from omni_verify.pipeline.config.topology import PipelineConfig, StagePipelineConfig

__all__ = ["QWEN3_OMNI", "QWEN3_TTS", "get_topology", "inject_forced_aligner_stage", "topology_names"]

PROCESSORS = "omni_verify.pipeline.processors"
TALKER_STOP_TOKEN = 2150

QWEN3_OMNI = PipelineConfig(
    model_type="qwen3_omni_moe",
    default_deploy_config_name="qwen3_omni_moe.yaml",
    stages=(
        StagePipelineConfig(
            stage_id=0,
            model_stage="thinker",
            final_output=True,
            final_output_type="text",
            owns_tokenizer=True,
            requires_multimodal_data=True,
            hf_config_name="thinker_config",
            engine_output_type="latent",
            sampling_constraints={"detokenize": True},
            custom_process_next_stage_input_func=f"{PROCESSORS}.full_payload.thinker2talker_full_payload",
            async_chunk_process_next_stage_input_func=f"{PROCESSORS}.thinker2talker.thinker2talker_async_chunk",
        ),
        StagePipelineConfig(
            stage_id=1,
            model_stage="talker",
            input_sources=(0,),
            hf_config_name="talker_config",
            engine_output_type="latent",
            sampling_constraints={"detokenize": False, "stop_token_ids": [TALKER_STOP_TOKEN]},
            sync_process_input_func=f"{PROCESSORS}.full_payload.thinker2talker_token_only",
            custom_process_next_stage_input_func=f"{PROCESSORS}.full_payload.talker2code2wav_full_payload",
            async_chunk_process_next_stage_input_func=f"{PROCESSORS}.talker2code2wav.talker2code2wav_async_chunk",
            requires_full_payload_input=True,
        ),
        StagePipelineConfig(
            stage_id=2,
            model_stage="code2wav",
            execution_type=StageExecutionType.LLM_GENERATION,
            input_sources=(1,),
            final_output=True,
            final_output_type="audio",
            hf_config_name="thinker_config",
            engine_output_type="audio",
            sampling_constraints={"detokenize": True},
            requires_full_payload_input=True,
        ),
    ),
)

QWEN3_TTS = PipelineConfig(
    model_type="qwen3_tts",
    default_deploy_config_name="qwen3_tts.yaml",
    stages=(
        StagePipelineConfig(
            stage_id=0,
            model_stage="talker",
            owns_tokenizer=True,
            hf_config_name="talker_config",
            engine_output_type="latent",
            sampling_constraints={"detokenize": False, "stop_token_ids": [TALKER_STOP_TOKEN]},
            custom_process_next_stage_input_func=f"{PROCESSORS}.full_payload.talker2code2wav_full_payload",
            async_chunk_process_next_stage_input_func=f"{PROCESSORS}.talker2code2wav.talker2code2wav_async_chunk",
        ),
        StagePipelineConfig(
            stage_id=1,
            model_stage="code2wav",
            execution_type=StageExecutionType.LLM_GENERATION,
            input_sources=(0,),
            final_output=True,
            final_output_type="audio",
            engine_output_type="audio",
            requires_full_payload_input=True,
        ),
    ),
)


def topology_names() -> tuple[str, ...]:
    """Return the names that :func:`get_topology` knows."""
    return tuple(topology.model_type for topology in (QWEN3_OMNI, QWEN3_TTS))


def get_topology(name: str) -> PipelineConfig:
    """Return a shipped topology by its ``model_type``."""
    for topology in (QWEN3_OMNI, QWEN3_TTS):
        if topology.model_type == name:
            return topology
    raise unknown_value("pipeline", name, topology_names())


def inject_forced_aligner_stage(
    pipeline: PipelineConfig, deploy: DeployConfig, forced_aligner: str | None
) -> tuple[PipelineConfig, DeployConfig]:
    """Append a forced aligner behind the last stage; do nothing where no aligner is asked for.

    The aligner needs the complete waveform, so it opts out of chunk mode and, as a pooling stage, of
    asynchronous scheduling (article section 4.2, vllm-omni#7544).

    Args:
        pipeline: topology whose last stage makes audio.
        deploy: its deployment; an entry for the new stage id is kept and only completed.
        forced_aligner: name of the aligner model, None or empty for none.

    Raises:
        ConfigError: the last stage makes no audio.
    """
    if not forced_aligner:
        return pipeline, deploy
    last, n = pipeline.stages[-1], len(pipeline.stages)
    if last.final_output_type != "audio":
        raise ConfigError(
            f"a forced aligner as stage {n} needs audio from stage {last.stage_id} ({last.model_stage}), "
            f"which makes {last.final_output_type!r}. Drop the forced aligner or choose a pipeline that ends "
            "in audio."
        )
    stage = StagePipelineConfig(
        stage_id=n,
        model_stage="forced_aligner",
        input_sources=(n - 1,),
        final_output=True,
        final_output_type="timestamps",
        owns_tokenizer=True,
        requires_multimodal_data=True,
        custom_process_input_func=f"{PROCESSORS}.aligner.code2wav2aligner",
    )
    neighbour = deploy.get_stage(n - 1) or StageDeployConfig(n - 1)
    entry = deploy.get_stage(n) or StageDeployConfig(n, devices=neighbour.devices)
    entry = replace(
        entry,
        async_chunk=False,
        async_scheduling=False,
        default_pooling_params=entry.default_pooling_params or {"task": "token_classify"},
        engine_extras={
            **entry.engine_extras,
            "runner": "pooling",
            "model": forced_aligner,
            "pooling_output_decoder": f"{PROCESSORS}.aligner.decode_pooling_output",
        },
    )
    others = tuple(item for item in deploy.stages if item.stage_id != n)
    return replace(pipeline, stages=(*pipeline.stages, stage)), replace(deploy, stages=(*others, entry))
