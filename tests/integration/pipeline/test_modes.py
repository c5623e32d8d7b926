"""The same request in every execution mode: same audio, nothing left; and how requests end early."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from omni_verify.contracts.keys import build_key
from omni_verify.errors import UsageError
from omni_verify.pipeline.orchestration.messages import ErrorMessage
from omni_verify.pipeline.orchestration.pipeline import Pipeline, RequestFailedError
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs
from omni_verify.pipeline.stages.messages import FinishReason
from omni_verify.pipeline.stages.params import RequestOutputKind

FRAMES = 79
SAMPLES = 79 * 1920 - 555


@pytest.fixture(scope="module")
def inline(open_pipeline):
    with open_pipeline("inline") as bench:
        yield bench


@pytest.fixture(scope="module")
def reference_audio(inline):
    return inline.run("reference", params=inline.params(frames=FRAMES))


def step_until(bench, condition, bound=20_000):
    for _ in range(bound):
        if condition():
            return
        bench.pipeline.orchestrator.step()
    raise AssertionError("the condition did not come within the bound")


def spy(monkeypatch, bench, stage_id):
    """Record what the model of a stage is given."""
    runner, seen = bench.pipeline.handles[stage_id].core.runner, []
    inner = runner.execute

    def execute(scheduled):
        if not scheduled.is_empty:
            seen.append(scheduled)
        return inner(scheduled)

    monkeypatch.setattr(runner, "execute", execute)
    return seen


def test_worked_numbers_of_79_frames(inline, reference_audio):
    text, audio, messages = reference_audio
    assert text.strip()
    assert len(audio) == SAMPLES == 151_125
    sizes = [
        len(m.output.outputs[0].multimodal_output.get("audio", ()))
        for m in messages
        if m.output_type == "audio"
    ]
    assert [size for size in sizes if size] == [7125, 48000, 48000, 48000]
    assert [m.finished for m in messages] == [False] * (len(messages) - 1) + [True]
    assert inline.residue() == []


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_every_mode_gives_the_same_audio_and_leaves_nothing(open_pipeline, reference_audio, mode):
    with open_pipeline(mode) as bench:
        text, audio, messages = bench.run("same", params=bench.params(frames=FRAMES))
        assert text == reference_audio[0]
        assert np.array_equal(audio, reference_audio[1])
        assert sum(m.finished for m in messages) == 1
        assert bench.residue() == []


def test_without_chunks_the_same_speech_comes_in_one_piece(open_pipeline, reference_audio):
    with open_pipeline("inline", async_chunk=False) as bench:
        text, audio, _ = bench.run("whole", params=bench.params(frames=FRAMES))
        assert text == reference_audio[0]
        assert len(audio) == SAMPLES
        assert np.allclose(audio, reference_audio[1], atol=1e-5)
        assert bench.residue() == []


def test_no_placeholder_is_ever_executed(inline, monkeypatch):
    talker, decoder = spy(monkeypatch, inline, 1), spy(monkeypatch, inline, 2)
    inline.run("placeholder", params=inline.params(frames=5))
    first = decoder[0].scheduled_new_reqs[0]
    assert len(first.prompt_token_ids) == 16 * 4
    assert first.additional_information["meta"]["left_context_size"] == 0
    assert first.prompt_token_ids[:4] == [0, 1, 2, 3]
    assert "embed" in talker[0].scheduled_new_reqs[0].additional_information


def test_text_only_wakes_no_other_stage_and_puts_nothing(inline, monkeypatch):
    assert inline.residue() == []  # the request of the test before may still be sending
    talker = spy(monkeypatch, inline, 1)
    puts = []
    connector = inline.pipeline.handles[0].core.adapter.connector
    monkeypatch.setattr(connector, "put", lambda **fields: puts.append(fields) or (True, 0, None))
    _, audio, _ = inline.run("text", modalities=["text"])
    assert audio is None
    assert (talker, puts) == ([], [])
    assert inline.residue() == []


def test_concurrent_requests_do_not_mix(open_pipeline, reference_audio):
    with open_pipeline("inline") as bench:
        streams = [
            bench.pipeline.generate(bench.id(f"c{n}"), bench.prompt(), bench.params(frames=20 + n))
            for n in range(4)
        ]
        lengths = dict.fromkeys(range(4), 0)
        heard = {n: [] for n in range(4)}
        live = dict(enumerate(streams))
        while live:
            for n in list(live):
                message = next(live[n], None)
                if message is None:
                    del live[n]
                elif message.output_type == "audio":
                    heard[n].append(message.output.outputs[0].multimodal_output.get("audio"))
        for n in lengths:
            audio = np.concatenate([piece.numpy() for piece in heard[n] if piece is not None])
            assert len(audio) == (20 + n) * 1920 - 555
            assert np.allclose(audio, reference_audio[1][: len(audio)], atol=1e-5)
        assert bench.residue() == []


def test_an_id_is_usable_again_after_its_release(inline):
    first = inline.run("again", params=inline.params(frames=30))
    assert inline.residue() == []
    second = inline.run("again", params=inline.params(frames=30))
    assert np.array_equal(first[1], second[1])
    assert inline.residue() == []


def test_abort_during_prefill(open_pipeline):
    with open_pipeline("inline", model_options={"thinker": {"max_prefill_tokens": 4}}) as bench:
        stream = bench.pipeline.generate(bench.id("prefill"), bench.prompt("x" * 400))
        sent = []
        bench.pipeline.submit(bench.id("other"), bench.prompt("y" * 400), bench.params(), sent.append)
        engine = bench.pipeline.handles[0].core.runner.engine
        step_until(bench, lambda: bench.id("other") in engine.live_requests())
        bench.pipeline.abort(bench.id("other"))
        bench.pipeline.orchestrator.step()
        assert sent == []
        stream.close()
        assert bench.residue() == []
        assert bench.run("after", params=bench.params(frames=8))[1].size == 8 * 1920 - 555


@pytest.mark.parametrize("mode", ["inline", "thread"])
def test_client_leaves_after_the_first_audio(open_pipeline, mode):
    with open_pipeline(mode) as bench:
        for message in bench.pipeline.generate(bench.id("left"), bench.prompt(), bench.params(frames=3000)):
            if message.output_type == "audio":
                break
        assert bench.residue() == []
        assert bench.pipeline.statistics()["aborted"] == 1
        assert bench.run("after", params=bench.params(frames=8))[1].size == 8 * 1920 - 555
        assert bench.residue() == []


@pytest.mark.parametrize("mode", ["inline", "thread"])
def test_a_decoder_that_stops_early_leaves_no_unread_chunk(open_pipeline, mode):
    with open_pipeline(mode) as bench:
        _, audio, messages = bench.run("early", params=bench.params(frames=1500, max_frames=10))
        assert audio.size == 10 * 1920
        assert messages[-1].output.outputs[0].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
        assert bench.residue() == []
        assert bench.pipeline.is_healthy()


def test_one_failed_put_ends_the_request_in_all_stages_with_its_reason(open_pipeline, monkeypatch):
    with open_pipeline("inline") as bench:
        connector = bench.pipeline.handles[1].core.adapter.connector
        inner = connector.put

        def put(*args, **fields):
            if fields["put_key"] == build_key(bench.id("hole"), 1, 1):
                return False, 0, None
            return inner(*args, **fields)

        monkeypatch.setattr(connector, "put", put)
        with pytest.raises(RequestFailedError, match="put reported failure"):
            bench.run("hole", params=bench.params(frames=200))
        monkeypatch.undo()
        assert bench.residue() == []
        assert bench.run("after", params=bench.params(frames=8))[1].size == 8 * 1920 - 555


def test_a_failing_model_ends_its_requests_and_nothing_else(open_pipeline, monkeypatch):
    with open_pipeline("inline") as bench:
        runner = bench.pipeline.handles[2].core.runner
        monkeypatch.setattr(runner, "execute", lambda scheduled: 1 / 0)
        with pytest.raises(RequestFailedError, match="ZeroDivisionError"):
            bench.run("broken", params=bench.params(frames=8))
        monkeypatch.undo()
        assert bench.residue() == []
        assert bench.run("after", params=bench.params(frames=8))[1].size == 8 * 1920 - 555


def test_a_stalled_stream_ends_at_its_deadline(open_pipeline, monkeypatch):
    with open_pipeline("inline", input_wait_timeout_s=0.2) as bench:
        monkeypatch.setattr(
            bench.pipeline.handles[0].core.adapter.connector, "put", lambda **_: (True, 1, None)
        )
        with pytest.raises(RequestFailedError, match=r"Timed out waiting for connector input after 0\.2s"):
            bench.run("stall", params=bench.params(frames=8))
        monkeypatch.undo()
        assert bench.residue() == []


def test_a_live_id_and_wrong_modalities_are_refused_without_a_trace(inline):
    messages = []
    inline.pipeline.submit(inline.id("twice"), inline.prompt(), inline.params(frames=8), messages.append)
    inline.pipeline.submit(inline.id("twice"), inline.prompt(), inline.params(frames=8), messages.append)
    inline.pipeline.submit(
        inline.id("odd"), inline.prompt(), inline.params(), messages.append, modalities=["smell"]
    )
    inline.pipeline.orchestrator.step()
    assert [m.status_code for m in messages if isinstance(m, ErrorMessage)] == [409, 400]
    step_until(inline, lambda: getattr(messages[-1], "finished", False))
    assert inline.residue() == []


def test_aligned_speech_gets_words_over_the_whole_sentence(open_pipeline):
    with open_pipeline("inline", "qwen3_tts", aligner="reference") as bench:
        params = bench.params(kind=RequestOutputKind.CUMULATIVE)
        _, _, messages = bench.run("aligned", prompt=bench.prompt("one two three"), params=params)
        lengths = [
            m.output.outputs[0].multimodal_output["audio"].numel()
            for m in messages
            if m.output_type == "audio"
        ]
        assert lengths == sorted(lengths)
        assert lengths[-1] == 4 * len("one two three") * 1920 - 555
        (last,) = [m for m in messages if m.output_type == "timestamps"]
        times = last.output.outputs[0].multimodal_output["timestamps"]
        assert times.shape == (3, 2)
        assert times[0, 0] < 200
        assert abs(times[-1, 1].item() - lengths[-1] / 24) < 200
        assert last.finished
        assert bench.residue() == []


@pytest.mark.parametrize("mode", ["inline", "thread"])
def test_variables_for_a_stage_without_its_own_process_are_refused(mode):
    configs = list(load_configs(LaunchOptions(model="qwen3_omni_moe", mode="thread")))
    configs[1] = dataclasses.replace(configs[1], env={"A": "1"})
    with pytest.raises(UsageError, match=rf"stage 1 sets env \(A\).*got execution mode '{mode}'"):
        Pipeline(configs, mode=mode)
