"""I1 to I5, I4b: every combination of stage flags, against the table."""

import itertools

import pytest

from omni_verify.contracts.stage_modes import (
    RESOLVED,
    any_chunking,
    illegal_edges,
    resolved_modes,
    unfed_receivers,
)
from omni_verify.pipeline.config import (
    QWEN3_OMNI,
    ConfigError,
    DeployConfig,
    PipelineConfig,
    StageDeployConfig,
    StagePipelineConfig,
    any_stage_async_chunk,
    build_connector_config,
    build_engine_args,
    build_stage_config,
    merge_pipeline_deploy,
    resolve_stage_async_chunk,
    validate_chunk_receivers,
    validate_stage_async_chunk_edges,
)

FLAGS = (None, False, True)
CHUNK = "omni_verify.pipeline.processors.talker2code2wav.talker2code2wav_async_chunk"
FULL = "omni_verify.pipeline.processors.full_payload.talker2code2wav_full_payload"
TOKENS = "omni_verify.pipeline.processors.full_payload.thinker2talker_token_only"


def linear(produces):
    """Return a pipeline k -> k+1 in which stage k declares a chunk producer where ``produces[k]``."""
    stages = tuple(
        StagePipelineConfig(
            k,
            f"s{k}",
            input_sources=(k - 1,) if k else (),
            final_output=k == len(produces) - 1,
            async_chunk_process_next_stage_input_func=CHUNK if chunks else None,
            custom_process_next_stage_input_func=FULL,
            sync_process_input_func=TOKENS,
        )
        for k, chunks in enumerate(produces)
    )
    return PipelineConfig("linear", stages)


def deployed(pipeline_flag, flags):
    stages = tuple(StageDeployConfig(k, async_chunk=flag) for k, flag in enumerate(flags))
    return DeployConfig(async_chunk=pipeline_flag, stages=stages)


def error_of(check, *args):
    try:
        check(*args)
    except ConfigError as error:
        return str(error)
    return None


def test_the_table_of_the_resolver():
    for (pipeline, stage), expected in RESOLVED.items():
        assert (
            resolve_stage_async_chunk(DeployConfig(pipeline), StageDeployConfig(0, async_chunk=stage))
            is expected
        )
    assert resolve_stage_async_chunk(DeployConfig(async_chunk=True), None) is True
    assert resolve_stage_async_chunk(DeployConfig(async_chunk=False), None) is False


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("pipeline_flag", [False, True])
def test_all_combinations_of_stage_flags(n, pipeline_flag):
    for flags, tail in itertools.product(
        itertools.product(FLAGS, repeat=n), itertools.product([0, 1], repeat=n - 1)
    ):
        produces = [*map(bool, tail), False]
        pipeline, deploy = linear(produces), deployed(pipeline_flag, flags)
        modes = resolved_modes(pipeline_flag, flags)
        configs = [build_stage_config(pipeline, deploy, stage) for stage in pipeline.stages]
        assert [config.async_chunk for config in configs] == modes
        assert any_stage_async_chunk(configs) is any_chunking(modes)
        if n > 1:
            wrong = illegal_edges(modes, produces)
            message = error_of(validate_stage_async_chunk_edges, pipeline, deploy)
            assert (message is not None) is bool(wrong)
            if wrong:
                assert f"{wrong[0][0]} -> {wrong[0][1]}" in message
            unfed = unfed_receivers(modes, produces)
            message = error_of(validate_chunk_receivers, pipeline, deploy)
            assert (message is not None) is bool(unfed)
            if unfed:
                assert f"{unfed[0][0]} -> {unfed[0][1]}" in message


@pytest.mark.parametrize("flags", list(itertools.product(FLAGS, repeat=3)))
def test_qwen3_omni_is_legal_exactly_when_all_stages_agree(flags):
    modes = resolved_modes(True, flags)
    message = error_of(merge_pipeline_deploy, QWEN3_OMNI, deployed(True, flags))
    assert (message is None) is (len(set(modes)) == 1)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("pipeline_flag", [False, True])
def test_every_reader_of_the_mode_sees_the_same_value(pipeline_flag, flag):
    pipeline, deploy = linear([True, True, False]), deployed(pipeline_flag, [flag] * 3)
    mode = RESOLVED[pipeline_flag, flag]
    for stage in pipeline.stages:
        config, args = build_stage_config(pipeline, deploy, stage), build_engine_args(pipeline, deploy, stage)
        connector = build_connector_config(pipeline, deploy, stage)
        assert config.async_chunk is args["async_chunk"] is connector["extra"]["async_chunk"] is mode
        producer = (stage.async_chunk_process_next_stage_input_func if mode else None) or FULL
        consumer = None if mode else TOKENS
        assert config.next_stage_processor == args["custom_process_next_stage_input_func"] == producer
        assert config.input_processor == args["custom_process_input_func"] == consumer


@pytest.mark.parametrize("value", ["false", "true", 0, 1, [], 0.0])
@pytest.mark.parametrize("build", [build_stage_config, build_engine_args, build_connector_config])
def test_only_booleans_are_flags(build, value):
    pipeline = linear([True, False])
    for deploy in (deployed(value, [None, None]), deployed(True, [value, None])):
        with pytest.raises(ConfigError, match="async_chunk must be a boolean"):
            build(pipeline, deploy, pipeline.stages[0])
        with pytest.raises(ValueError, match="async_chunk must be a boolean"):
            merge_pipeline_deploy(pipeline, deploy)


def test_a_pipeline_without_chunks_in_stage_0_still_chunks():
    pipeline, deploy = linear([False, True, False]), deployed(True, [False, True, True])
    configs = [build_stage_config(pipeline, deploy, stage) for stage in pipeline.stages]
    assert [config.async_chunk for config in configs] == [False, True, True]
    assert any_stage_async_chunk(configs) is True
