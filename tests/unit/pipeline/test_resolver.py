"""The resolver's smaller questions: processors, receivers, roles."""

from types import SimpleNamespace

import pytest

from omni_verify.pipeline.config import (
    ConfigError,
    DeployConfig,
    PipelineConfig,
    StageDeployConfig,
    StagePipelineConfig,
    merge_pipeline_deploy,
    select_processor_funcs,
    stage_receives_chunks,
)


def test_a_single_stage_never_chunks():
    pipeline = PipelineConfig("one", (StagePipelineConfig(0, "only", final_output=True),))
    deploy = DeployConfig(async_chunk=True, stages=(StageDeployConfig(0, async_chunk=True),))
    assert merge_pipeline_deploy(pipeline, deploy)[0].async_chunk is False


@pytest.mark.parametrize(
    ("declared", "resolved", "expected"),
    [
        ({}, True, (None, None)),
        ({"async": "a", "full": "f", "custom": "c", "sync": "s"}, True, ("c", "a")),
        ({"async": "a", "full": "f", "custom": "c", "sync": "s"}, False, ("s", "f")),
        ({"full": "f", "custom": "c"}, True, ("c", "f")),
        ({"async": "a", "custom": "c"}, False, ("c", None)),
    ],
)
def test_the_processors_follow_the_resolved_mode(declared, resolved, expected):
    stage = StagePipelineConfig(
        0,
        "s",
        custom_process_input_func=declared.get("custom"),
        sync_process_input_func=declared.get("sync"),
        custom_process_next_stage_input_func=declared.get("full"),
        async_chunk_process_next_stage_input_func=declared.get("async"),
    )
    assert select_processor_funcs(stage, resolved) == expected


@pytest.mark.parametrize(
    ("connector", "expected"),
    [
        (None, True),
        ({"name": "X"}, True),
        ({"extra": {"role": "sender"}}, False),
        ({"extra": {"role": "receiver"}}, True),
        ({"extra": {"role": 7}}, True),
        (SimpleNamespace(extra={"role": "sender"}), False),
    ],
)
def test_a_stage_that_only_sends_receives_no_chunks(connector, expected):
    config = SimpleNamespace(async_chunk=True, stage_connector_config=connector)
    assert stage_receives_chunks(config) is expected
    assert (
        stage_receives_chunks(SimpleNamespace(async_chunk=False, stage_connector_config=connector)) is False
    )


def test_a_missing_flag_is_no_yes():
    with pytest.raises(ConfigError, match=r"has no async_chunk.*resolve_stage_async_chunk"):
        stage_receives_chunks(SimpleNamespace())


@pytest.mark.parametrize("value", [None, "false", 1])
def test_an_unresolved_flag_is_refused(value):
    with pytest.raises(ConfigError, match="async_chunk must be a boolean: stage 2"):
        stage_receives_chunks(SimpleNamespace(async_chunk=value, stage_id=2))
