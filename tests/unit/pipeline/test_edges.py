"""Edge checks: both ends are named and the message says what to change."""

import pytest

from omni_verify.pipeline.config import (
    QWEN3_OMNI,
    QWEN3_TTS,
    ConfigError,
    DeployConfig,
    PipelineConfig,
    StageDeployConfig,
    StagePipelineConfig,
    inject_forced_aligner_stage,
    merge_pipeline_deploy,
    validate_async_chunk_support,
    validate_edges,
    validate_stage_async_chunk_edges,
)


def deploy(**flags):
    return DeployConfig(stages=tuple(StageDeployConfig(int(k[1:]), async_chunk=v) for k, v in flags.items()))


@pytest.mark.parametrize(
    ("flags", "edge"), [({"s1": False}, "0 -> 1"), ({"s2": False}, "1 -> 2"), ({"s0": False}, "0 -> 1")]
)
def test_one_end_of_a_chunked_edge_cannot_be_switched_off(flags, edge):
    with pytest.raises(ConfigError) as caught:
        validate_stage_async_chunk_edges(QWEN3_OMNI, deploy(**flags))
    message = str(caught.value)
    assert f"incompatible async_chunk settings on connector edge {edge}" in message
    assert "Set async_chunk of stage" in message
    assert "'qwen3_omni_moe'" in message


def test_the_aligner_may_differ_from_its_producer():
    pipeline, config = inject_forced_aligner_stage(QWEN3_TTS, DeployConfig(), "a")
    assert [c.async_chunk for c in merge_pipeline_deploy(pipeline, config)] == [True, True, False]


def test_an_aligner_that_waits_for_chunks_is_refused_unless_asked():
    pipeline, config = inject_forced_aligner_stage(QWEN3_TTS, DeployConfig(), "a")
    stages = (*config.stages[:-1], StageDeployConfig(2, async_chunk=True))
    wrong = DeployConfig(stages=stages)
    with pytest.raises(
        ConfigError, match=r"stage 2 \(forced_aligner\).*stage 1 \(code2wav\).*async_chunk: false"
    ):
        merge_pipeline_deploy(pipeline, wrong)
    validate_edges(pipeline, wrong, strict=False)


def test_a_pipeline_that_cannot_chunk_says_so():
    stages = (StagePipelineConfig(0, "a"), StagePipelineConfig(1, "b", input_sources=(0,), final_output=True))
    pipeline = PipelineConfig("plain", stages)
    with pytest.raises(ConfigError, match=r"does not support async_chunk.*0 -> 1.*async_chunk: false"):
        validate_async_chunk_support(pipeline, DeployConfig())
    validate_async_chunk_support(pipeline, DeployConfig(async_chunk=False))


def test_chunks_and_a_kv_transfer_exclude_each_other():
    entry = StageDeployConfig(1, engine_extras={"kv_transfer_config": {"kv_role": "x"}})
    with pytest.raises(ConfigError, match="kv_transfer_config of stage 1"):
        validate_async_chunk_support(QWEN3_OMNI, DeployConfig(stages=(entry,)))
    validate_async_chunk_support(QWEN3_OMNI, DeployConfig(async_chunk=False, stages=(entry,)))
