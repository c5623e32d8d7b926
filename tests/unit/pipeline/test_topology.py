"""The shape of a topology, and the two that are shipped."""

import pytest

from omni_verify.errors import UsageError
from omni_verify.pipeline.config import (
    QWEN3_OMNI,
    QWEN3_TTS,
    ConfigError,
    DeployConfig,
    PipelineConfig,
    StageDeployConfig,
    StageExecutionType,
    StagePipelineConfig,
    get_topology,
    inject_forced_aligner_stage,
    load_function,
    scheduler_name,
)


def stage(k, *sources, final=False):
    return StagePipelineConfig(k, f"s{k}", input_sources=sources, final_output=final)


@pytest.mark.parametrize(
    ("stages", "reason"),
    [
        ((), "no stages"),
        ((stage(0), stage(0, final=True)), "stage id 0 is declared 2 times"),
        ((stage(0), stage(1, 7, final=True)), "stage 1 reads from stage 7, which does not exist"),
        ((stage(0), stage(1, 1, final=True)), "stage 1 names itself"),
        ((stage(0, 1), stage(1, 0, final=True)), "no entry stage"),
        ((stage(0), stage(1, 0)), "no stage has final_output=True"),
    ],
)
def test_an_impossible_topology_is_refused_with_the_reason(stages, reason):
    with pytest.raises(ConfigError, match="PipelineConfig initialization failed") as caught:
        PipelineConfig("broken", stages)
    assert reason in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UsageError)


def test_every_reason_is_listed_at_once():
    with pytest.raises(ConfigError, match=r"names itself.*no stage has final_output=True"):
        PipelineConfig("broken", (stage(0), stage(1, 1)))


def test_qwen3_omni():
    assert [(s.stage_id, s.model_stage, s.input_sources, s.final_output_type) for s in QWEN3_OMNI.stages] == [
        (0, "thinker", (), "text"),
        (1, "talker", (0,), None),
        (2, "code2wav", (1,), "audio"),
    ]
    assert QWEN3_OMNI.stages[2].execution_type is StageExecutionType.LLM_GENERATION
    assert QWEN3_OMNI.stages[1].sampling_constraints["stop_token_ids"] == [2150]


@pytest.mark.parametrize("pipeline", [QWEN3_OMNI, QWEN3_TTS])
def test_every_function_of_a_shipped_topology_exists(pipeline):
    for item in pipeline.stages:
        for name in item.__dataclass_fields__:
            if name.endswith("_func") and getattr(item, name):
                assert callable(load_function(getattr(item, name)))


def test_an_unknown_function_is_a_configuration_error():
    with pytest.raises(ConfigError, match=r"stage 3.*'omni_verify\.nowhere\.f'.*Correct the dotted path"):
        load_function("omni_verify.nowhere.f", where="stage 3")


def test_an_unknown_topology_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'qwen3_tts'"):
        get_topology("qwen3-tts")


@pytest.mark.parametrize("pipeline", [QWEN3_OMNI, QWEN3_TTS])
def test_the_forced_aligner_is_appended_with_its_own_mode(pipeline):
    n = len(pipeline.stages)
    extended, deploy = inject_forced_aligner_stage(pipeline, DeployConfig(), "aligner")
    aligner, entry = extended.stages[-1], deploy.get_stage(n)
    assert (aligner.stage_id, aligner.input_sources, aligner.final_output_type) == (n, (n - 1,), "timestamps")
    assert (entry.async_chunk, entry.async_scheduling) == (False, False)
    assert entry.engine_extras["runner"] == "pooling"
    assert entry.default_pooling_params == {"task": "token_classify"}
    assert callable(load_function(entry.engine_extras["pooling_output_decoder"]))


def test_an_entry_for_the_aligner_is_kept_but_cannot_turn_chunks_on():
    given = DeployConfig(stages=(StageDeployConfig(2, devices="7", async_chunk=True),))
    _, deploy = inject_forced_aligner_stage(QWEN3_TTS, given, "aligner")
    assert (deploy.get_stage(2).devices, deploy.get_stage(2).async_chunk) == ("7", False)
    assert len(deploy.stages) == 1


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_an_aligner_nothing_changes(nothing):
    deploy = DeployConfig()
    assert inject_forced_aligner_stage(QWEN3_TTS, deploy, nothing) == (QWEN3_TTS, deploy)


def test_an_aligner_needs_audio():
    with pytest.raises(ConfigError, match="stage 1 needs audio from stage 0"):
        inject_forced_aligner_stage(PipelineConfig("text", (stage(0, final=True),)), DeployConfig(), "a")


def test_async_scheduling_chooses_only_among_ar_schedulers():
    assert scheduler_name(StageExecutionType.LLM_AR) == "OmniARAsyncScheduler"
    assert scheduler_name(StageExecutionType.LLM_AR, async_scheduling=False) == "OmniARScheduler"
    for flag in (True, False):
        assert (
            scheduler_name(StageExecutionType.LLM_GENERATION, async_scheduling=flag)
            == "OmniGenerationScheduler"
        )
        assert scheduler_name(StageExecutionType.DIFFUSION, async_scheduling=flag) is None
