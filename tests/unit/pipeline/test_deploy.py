"""Deploy files: the shipped ones, overlays, and mistakes that are found at start."""

import pytest
import yaml

from omni_verify.errors import UsageError
from omni_verify.pipeline.config import (
    QWEN3_OMNI,
    QWEN3_TTS,
    ChunkSizes,
    ConfigError,
    DeployConfig,
    StageDeployConfig,
    load_deploy_config,
    merge_pipeline_deploy,
    parse_deploy,
    shipped_deploy_path,
)


def shipped(name="qwen3_omni_moe.yaml"):
    return load_deploy_config(shipped_deploy_path(name))


def write(path, data):
    path.write_text(yaml.safe_dump(data))
    return path


def test_the_main_example():
    thinker, talker, code2wav = merge_pipeline_deploy(QWEN3_OMNI, shipped())
    assert [c.devices for c in (thinker, talker, code2wav)] == ["0", "1", "1"]
    assert [c.async_chunk for c in (thinker, talker, code2wav)] == [True, True, True]
    assert ChunkSizes.from_extra(talker.stage_connector_config["extra"]) == ChunkSizes(4, 25, 25)
    assert talker.default_sampling_params["seed"] == 42
    assert talker.default_sampling_params["stop_token_ids"] == [2150]
    assert code2wav.engine_args["async_scheduling"] is False
    assert code2wav.engine_args["max_num_batched_tokens"] == 65536
    assert code2wav.engine_args["enable_chunked_prefill"] is False
    assert code2wav.scheduler == "OmniGenerationScheduler"
    assert [c.stage_connector_config["name"] for c in (thinker, code2wav)] == ["SharedMemoryConnector"] * 2
    assert [c.stage_connector_config["extra"]["stage_id"] for c in (thinker, talker, code2wav)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "pipeline"), [("qwen3_omni_moe.yaml", QWEN3_OMNI), ("qwen3_tts.yaml", QWEN3_TTS)]
)
def test_every_shipped_file_starts(name, pipeline):
    assert pipeline.default_deploy_config_name == name
    assert len(merge_pipeline_deploy(pipeline, shipped(name))) == len(pipeline.stages)


def test_an_unknown_shipped_file_is_named():
    with pytest.raises(UsageError, match=r"Did you mean 'qwen3_tts\.yaml'"):
        shipped_deploy_path("qwen3-tts.yaml")


def test_an_overlay_changes_only_what_it_names(tmp_path):
    base = {
        "async_chunk": True,
        "connectors": {"shm": {"name": "SharedMemoryConnector", "extra": {"codec_chunk_frames": 25, "a": 1}}},
        "stages": [{"stage_id": 0, "devices": "0", "max_num_seqs": 8}, {"stage_id": 1, "devices": "1"}],
        "platforms": {"cuda": {"stages": [{"stage_id": 0, "enforce_eager": True}]}},
    }
    overlay = {
        "base_config": "base.yaml",
        "async_chunk": False,
        "connectors": {"shm": {"extra": {"codec_chunk_frames": 10}}},
        "stages": [{"stage_id": 1, "devices": "2"}, {"stage_id": 2}],
        "platforms": {"cuda": {"stages": [{"stage_id": 0, "devices": "9"}]}},
    }
    write(tmp_path / "base.yaml", base)
    deploy = load_deploy_config(write(tmp_path / "over.yaml", overlay))
    assert deploy.async_chunk is False
    assert deploy.connectors["shm"] == {
        "name": "SharedMemoryConnector",
        "extra": {"codec_chunk_frames": 10, "a": 1},
    }
    assert [(s.stage_id, s.devices, s.max_num_seqs) for s in deploy.stages] == [
        (0, "0", 8),
        (1, "2", None),
        (2, None, None),
    ]
    assert deploy.platforms["cuda"]["stages"] == [{"stage_id": 0, "enforce_eager": True, "devices": "9"}]


def test_base_files_may_not_form_a_cycle(tmp_path):
    write(tmp_path / "a.yaml", {"base_config": "b.yaml"})
    write(tmp_path / "b.yaml", {"base_config": "a.yaml"})
    with pytest.raises(ConfigError, match="base_config cycle"):
        load_deploy_config(tmp_path / "a.yaml")


def test_engine_args_win_over_flat_keys_and_runtime_over_both():
    entry = {
        "stage_id": 0,
        "devices": "0",
        "max_num_seqs": 1,
        "moe_backend": "triton",
        "engine_args": {"max_num_seqs": 2, "moe_backend": "cutlass", "devices": "1"},
        "runtime": {"devices": "2", "num_replicas": 3, "env": {"A": "1"}},
    }
    stage = parse_deploy({"stages": [entry]}).stages[0]
    assert (stage.max_num_seqs, stage.devices, stage.num_replicas, stage.env) == (2, "2", 3, {"A": "1"})
    assert stage.engine_extras == {"moe_backend": "cutlass"}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"stage_args": []}, "removed stage_args schema"),
        ({"model_runner": "v3"}, "model_runner must be 'v1' or 'v2'"),
        ({"async_chunks": True}, "Did you mean 'async_chunk'"),
        ({"stages": [{"devices": "0"}]}, "integer stage_id"),
        ({"stages": [{"stage_id": True}]}, "integer stage_id"),
        ({"stages": [{"stage_id": 1}, {"stage_id": 1}]}, "stage 1 has two deploy entries"),
    ],
)
def test_a_wrong_file_is_refused(raw, words):
    with pytest.raises(ConfigError, match=words):
        parse_deploy(raw)


@pytest.mark.parametrize("text", ["a: [", "- 1", ""])
def test_an_unreadable_file_is_refused(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="deploy file"):
        load_deploy_config(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_deploy_config(tmp_path / "missing.yaml")


def test_precedence_command_line_file_default():
    pipeline = QWEN3_OMNI
    assert merge_pipeline_deploy(pipeline, DeployConfig())[1].async_chunk is True
    off = DeployConfig(async_chunk=False)
    assert merge_pipeline_deploy(pipeline, off)[1].async_chunk is False
    assert merge_pipeline_deploy(pipeline, off, async_chunk=True)[1].async_chunk is True
    with pytest.raises(ConfigError, match="command line"):
        merge_pipeline_deploy(pipeline, off, async_chunk="false")


def test_the_platform_lies_over_the_stages_and_ignores_unknown_ones():
    deploy = DeployConfig(
        stages=(StageDeployConfig(0, devices="0", default_sampling_params={"a": 1}),),
        platforms={
            "npu": {
                "stages": [
                    {"stage_id": 0, "devices": "0,1", "x": 2, "default_sampling_params": {"b": 2}},
                    {"stage_id": 9},
                ]
            }
        },
    )
    thinker = merge_pipeline_deploy(QWEN3_OMNI, deploy, platform="npu")[0]
    assert (thinker.devices, thinker.engine_args["x"]) == ("0,1", 2)
    assert {"a": 1, "b": 2}.items() <= thinker.default_sampling_params.items()
    assert merge_pipeline_deploy(QWEN3_OMNI, deploy, platform="cuda")[0].devices == "0"


def test_entries_of_unknown_stages_are_ignored_and_missing_ones_inherit():
    deploy = DeployConfig(stages=(StageDeployConfig(9, devices="9"),))
    assert [c.devices for c in merge_pipeline_deploy(QWEN3_OMNI, deploy)] == [None, None, None]


def connectors(**stages):
    raw = shipped()
    entries = tuple(StageDeployConfig(int(k[1:]), **v) for k, v in stages.items())
    return DeployConfig(connectors={**raw.connectors, "other": {"name": "X"}}, stages=entries)


SHM = "connector_of_shared_memory"


@pytest.mark.parametrize(
    ("deploy", "words"),
    [
        (connectors(s1={"input_connectors": {"from_stage_0": "typo"}}), r"connector of edge 0 -> 1 'typo'"),
        (
            connectors(s2={"input_connectors": {"from_stage_0": SHM}}),
            r"edge 0 -> 2.*Its edges: 0 -> 1, 1 -> 2",
        ),
        (connectors(s2={"input_connectors": {"stage_1": SHM}}), "expected from_stage_<stage id>"),
        (
            connectors(
                s0={"output_connectors": {"to_stage_1": SHM}},
                s1={"input_connectors": {"from_stage_0": "other"}},
            ),
            "edge 0 -> 1: stage 0 sends through",
        ),
        (
            connectors(
                s1={"input_connectors": {"from_stage_0": SHM}},
                s2={"input_connectors": {"from_stage_1": "other"}},
            ),
            "stage 1 has one connector object, but edge 0 -> 1",
        ),
    ],
)
def test_a_wrong_connector_names_both_ends(deploy, words):
    with pytest.raises(ConfigError, match=words):
        merge_pipeline_deploy(QWEN3_OMNI, deploy)


@pytest.mark.parametrize("value", [0, -1, True, "25", 2.5, None])
def test_an_impossible_chunk_size_is_found_at_start(value):
    deploy = DeployConfig(connectors={"c": {"name": "X", "extra": {"codec_chunk_frames": value}}})
    with pytest.raises(
        ConfigError, match="connector 'c': codec_chunk_frames must be an integer of at least 1"
    ):
        merge_pipeline_deploy(QWEN3_OMNI, deploy)


@pytest.mark.parametrize("value", [[2, 4], "2,4", (2, 4)])
def test_a_ramp_may_be_a_list_or_a_string(value):
    assert ChunkSizes.from_extra({"codec_chunk_ramp": value, "codec_chunk_frames": 4}).ramp == (2, 4)


@pytest.mark.parametrize("value", [[3], "x,y", [0, 4], 5, [], ""])
def test_a_ramp_that_makes_no_sense_is_ignored_with_a_warning(value, caplog):
    from omni_verify.pipeline.config import chunk_sizes

    chunk_sizes.checked_ramp.cache_clear()
    assert ChunkSizes.from_extra({"codec_chunk_ramp": value}).ramp == ()
    assert "is ignored" in caplog.text
