"""Trimming, resampling and encoding: each sample reaches the client once, at the right rate."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
import soxr
import torch

from omni_verify.pipeline.serving import audio_stream
from omni_verify.pipeline.serving.audio import encode_wav, to_pcm16, to_samples, wav_header
from omni_verify.pipeline.serving.audio_stream import AudioStream
from omni_verify.pipeline.serving.trimming import AudioTrimmer

TONE = torch.sin(torch.arange(2400) * 0.05)
LENGTHS = (800, 2000, 2400)


def play(stream, outputs):
    return b"".join([stream.feed(output) for output in outputs] + [stream.finish()])


def cumulative_tensors():
    return [{"audio": TONE[:n], "sr": 24000} for n in LENGTHS]


def cumulative_lists():
    pieces = [TONE[:800], TONE[800:2000], TONE[2000:]]
    return [{"audio": pieces[: n + 1], "sr": 24000} for n in range(3)]


def deltas():
    return [{"audio": TONE[a:b], "sr": 24000} for a, b in [(0, 800), (800, 2000), (2000, 2400)]]


@pytest.mark.parametrize("outputs", [cumulative_tensors(), cumulative_lists()], ids=["tensor", "list"])
def test_cumulative_800_2000_2400_gives_2400_and_never_5200(outputs):
    assert play(AudioStream("pcm", cumulative=True), outputs) == to_pcm16(TONE.numpy())


def test_delta_outputs_are_sent_as_they_are_even_as_a_list():
    assert play(AudioStream("pcm", cumulative=False), deltas()) == to_pcm16(TONE.numpy())
    several = [{"audio": [TONE[:800], TONE[800:2000]], "sr": 24000}, {"audio": [TONE[2000:]], "sr": 24000}]
    assert play(AudioStream("pcm", cumulative=False), several) == to_pcm16(TONE.numpy())


@pytest.mark.parametrize("rate", [22050, 16000, 48000])
@pytest.mark.parametrize("outputs", [cumulative_tensors(), cumulative_lists()], ids=["tensor", "list"])
def test_trimming_happens_in_source_samples_before_resampling(rate, outputs):
    heard = np.frombuffer(play(AudioStream("pcm", cumulative=True, target_rate=rate), outputs), dtype="<i2")
    whole = np.frombuffer(to_pcm16(soxr.resample(TONE.numpy(), 24000, rate)), dtype="<i2")
    assert abs(len(heard) - 2400 * rate / 24000) <= 1
    assert np.abs(heard[: len(whole)].astype(int) - whole[: len(heard)]).max() <= 2


def test_a_shrinking_or_equal_length_emits_nothing_and_never_repeats():
    trimmer = AudioTrimmer(cumulative=True)
    assert [len(trimmer.take(TONE[:n])) for n in (800, 800, 300, 1000)] == [800, 0, 0, 200]
    listed = AudioTrimmer(cumulative=True)
    pieces = [TONE[:800], TONE[800:900]]
    assert [len(listed.take(p)) for p in (pieces, pieces[:1], pieces, [*pieces, TONE[900:950]])] == [
        900,
        0,
        0,
        50,
    ]


def test_a_wrong_order_of_trim_and_resample_would_be_heard(monkeypatch):
    def reversed_order(stream, audio):
        return stream.trimmer.take(stream.resample(to_samples(audio)))

    monkeypatch.setattr(audio_stream, "prepare_samples", reversed_order)
    heard = play(AudioStream("pcm", cumulative=True, target_rate=22050), cumulative_tensors())
    assert abs(len(heard) // 2 - 2205) > 1


def test_wav_stream_has_one_header_with_an_open_length():
    data = play(AudioStream("wav", cumulative=False), deltas())
    assert data[:4] == b"RIFF"
    assert struct.unpack_from("<I", data, 40) == (0xFFFFFFFF,)
    assert data[44:] == to_pcm16(TONE.numpy())
    assert data.count(b"RIFF") == 1


def test_complete_wav_is_readable():
    with wave.open(io.BytesIO(encode_wav(TONE.numpy(), 24000))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()) == (
            1,
            2,
            24000,
            2400,
        )
    assert len(wav_header(24000, 0)) == 44


def test_rate_problems_are_refused():
    with pytest.raises(ValueError, match="sample rate"):
        AudioStream("wav", cumulative=False).feed({"audio": TONE})
    stream = AudioStream("pcm", cumulative=False)
    stream.feed({"audio": TONE, "sr": 24000})
    with pytest.raises(ValueError, match="24000 to 16000"):
        stream.feed({"audio": TONE, "sr": 16000})


def test_samples_are_mono_float_and_pcm_is_clipped():
    assert to_samples(torch.ones(1, 1, 5)).shape == (5,)
    assert to_samples(torch.ones(1, 1)).shape == (1,)
    with pytest.raises(ValueError, match="mono"):
        to_samples(torch.ones(2, 5))
    assert np.frombuffer(to_pcm16(np.array([2.0, -2.0, np.nan], dtype=np.float32)), "<i2").tolist() == [
        32767,
        -32767,
        0,
    ]


def test_silence_before_the_first_audio_needs_no_rate():
    stream = AudioStream("wav", cumulative=False)
    assert stream.feed({"timestamps": []}) == b""
    assert stream.finish() == b""
