"""The forced aligner: it sees the complete waveform, and its times never run backwards."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.pipeline.models import ForcedAligner
from omni_verify.pipeline.processors import code2wav2aligner, decode_pooling_output, segment_words
from omni_verify.pipeline.processors.aligner import waveform_of
from omni_verify.pipeline.processors.word_times import decode_word_times, longest_rising, repair

PIECES = [torch.full((n,), value) for n, value in [(800, 0.1), (1200, 0.2), (400, 0.3)]]


def output(audio, *, finished=True, sr=24_000):
    return SimpleNamespace(finished=finished, multimodal_output={"audio": audio, "sr": sr}, request_id="R")


def prompt(text="one two", **info):
    return {"additional_information": {"text": text, **info}}


@pytest.mark.parametrize("audio", [torch.cat(PIECES), PIECES, torch.cat(PIECES).reshape(1, -1)])
def test_the_aligner_gets_all_2400_samples_which_are_100_ms(audio):
    (item,) = code2wav2aligner([output(audio)], prompt())
    waveform, rate = item["multi_modal_data"]["audio"]
    assert torch.equal(waveform, torch.cat(PIECES))
    assert rate == 24_000
    assert item["additional_information"]["aligner_audio_duration_ms"] == [100.0]
    assert item["additional_information"]["aligner_words"] == [["one", "two"]]
    assert item["prompt"].endswith("one<timestamp><timestamp>two<timestamp><timestamp>")


def test_unfinished_and_silent_outputs_make_no_call():
    assert code2wav2aligner([output(PIECES[0], finished=False)], prompt()) == []
    assert code2wav2aligner([output(torch.zeros(0)), output([]), output(None)], prompt()) == []


def test_several_outputs_have_their_own_text():
    outputs = [output(PIECES[0], finished=False), output(PIECES[1])]
    (item,) = code2wav2aligner(outputs, prompt(["first", "second"], language=["en", "zh"]))
    assert item["additional_information"]["text"] == ["second"]
    assert item["additional_information"]["language"] == "zh"
    assert item["additional_information"]["aligner_words"] == [list("second")]


def test_completions_inside_an_output_are_found():
    inner = SimpleNamespace(multimodal_output={"model_outputs": PIECES[0]})
    (item,) = code2wav2aligner([SimpleNamespace(finished=True, outputs=[inner])], prompt())
    assert item["multi_modal_data"]["audio"][0].numel() == 800


@pytest.mark.parametrize(
    ("sr", "rate"),
    [(None, 24_000), (16_000, 16_000), ([8000, 16_000], 16_000), (torch.tensor([1, 2]), 2), ([], 24_000)],
)
def test_the_sample_rate_may_come_in_any_form(sr, rate):
    assert waveform_of({"audio": PIECES[0], "sr": sr})[1] == rate


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("Hello, big  world", None, ["Hello,", "big", "world"]),
        ("你好，世界", "zh", ["你", "好", "世", "界"]),
        ("你好 世界", "en", ["你好", "世界"]),
        ("", None, []),
    ],
)
def test_words(text, language, words):
    assert segment_words(text, language) == words


@given(st.lists(st.text("abcdef", min_size=1, max_size=8), min_size=1, max_size=10), st.integers(240, 48_000))
def test_the_times_span_the_sentence_in_order(words, samples):
    waveform = torch.sin(torch.arange(samples) * 0.3)
    duration = samples / 24.0
    times = decode_word_times(ForcedAligner()(waveform, 24_000, words), len(words), duration, 80.0)
    flat = times.flatten().tolist()
    assert times.dtype == torch.int32
    assert times.shape == (len(words), 2)
    assert flat == sorted(flat)
    assert flat[0] == 0
    assert duration - 81 <= flat[-1] <= duration + 1


def test_words_follow_the_sound_and_not_the_silence():
    waveform = torch.cat([torch.zeros(24_000), torch.ones(24_000)])
    times = decode_word_times(ForcedAligner()(waveform, 24_000, ["aa", "bb"]), 2, 2000.0, 80.0)
    assert times[0, 1] > 1400
    assert times[1, 1] == 2000


@pytest.mark.parametrize(("markers", "words"), [(3, 2), (0, 0), (4, 1)])
def test_counts_that_do_not_match_give_no_times(markers, words):
    assert decode_word_times(torch.zeros(markers, 5), words, 100.0).shape == (0, 2)


def test_bins_spread_over_the_duration_when_they_have_no_length():
    logits = torch.eye(4)[[0, 1, 2, 3]]
    assert decode_word_times(logits, 2, 100.0).tolist() == [[0, 25], [50, 75]]
    info = {"aligner_words": [["a", "b"]], "aligner_audio_duration_ms": [100.0]}
    assert decode_pooling_output(logits, SimpleNamespace(additional_information=info)).tolist() == [
        [0, 25],
        [50, 75],
    ]


def test_no_time_exceeds_the_audio_or_falls_behind():
    logits = torch.eye(10)[[0, 9, 1, 9]]
    times = decode_word_times(logits, 2, 300.0, 80.0)
    assert times.max() == 300
    assert times.flatten().tolist() == sorted(times.flatten().tolist())


def test_a_mark_out_of_order_is_put_between_its_neighbours():
    assert repair([0.0, 10.0, 2.0, 3.0, 30.0]) == [0.0, 1.0, 2.0, 3.0, 30.0]
    assert repair([9.0, 1.0, 2.0, 0.0]) == [1.0, 1.0, 2.0, 2.0]
    assert repair([]) == []


@given(st.lists(st.integers(0, 9).map(float), max_size=8))
def test_the_repair_is_in_order_and_keeps_a_longest_run(values):
    fixed, kept = repair(values), longest_rising(values)
    assert fixed == sorted(fixed)
    assert [fixed[i] for i in kept] == [values[i] for i in kept]
    best = max((sum(1 for _ in run) for run in rising_runs(values)), default=0)
    assert len(kept) == best


def rising_runs(values):
    for mask in range(1 << len(values)):
        run = [value for i, value in enumerate(values) if mask >> i & 1]
        if run == sorted(run):
            yield run
