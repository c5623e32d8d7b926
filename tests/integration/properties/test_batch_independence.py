"""I48: what a request hears does not depend on its batch mates."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_verify.contracts.codec_layout import wire_order
from omni_verify.pipeline.code2wav import CodecRow, chunked_decode, chunked_decode_streaming, generate_audio
from omni_verify.pipeline.models import Code2WavDecoder, PositionDecoder, small_decoder

SMALL = small_decoder()
POSITION = PositionDecoder(2, 12, 18, 3)


def window(first, frames):
    return torch.arange(first, first + frames).repeat(2, 1)


@st.composite
def windows(draw):
    frames = draw(st.integers(0, 20))
    first = draw(st.integers(0, 50))
    context = draw(st.integers(0, min(frames, first)))
    return CodecRow(window(first, frames), context)


def prompt_of(row):
    return wire_order(row.codes.T.tolist())


def info_of(row):
    return {"meta": {"left_context_size": row.context}}


@given(st.lists(windows(), min_size=1, max_size=5), st.randoms())
@pytest.mark.parametrize("decoder", [POSITION, SMALL], ids=["position", "convolutions"])
@pytest.mark.parametrize("decode", [chunked_decode_streaming, chunked_decode])
def test_alone_as_in_any_batch_in_any_order(decoder, decode, rows, random):
    alone = [decode(decoder, [row])[0] for row in rows]
    order = list(range(len(rows)))
    random.shuffle(order)
    together = decode(decoder, [rows[i] for i in order])
    for i, audio in zip(order, together, strict=True):
        torch.testing.assert_close(audio, alone[i], atol=1e-12 if audio.is_floating_point() else 0, rtol=0)


BAD = [
    ([1, 2, 3], {"meta": {"left_context_size": 0}}, "no whole number"),
    ([1, 2, 3, 4], {"meta": {"left_context_size": 3}}, "left_context_size"),
    ([1, 2, 3, 4], {"meta": {"left_context_size": True}}, "left_context_size"),
    ([1, 2, 3, 4, 5, 9999], {}, "codec ids"),
    ([-1, 2], {}, "codec ids"),
]


@given(windows(), windows(), st.sampled_from(BAD), st.integers(0, 2))
@settings(max_examples=40)
def test_a_malformed_row_is_refused_alone(first, second, bad, place):
    prompts, infos = [prompt_of(first), prompt_of(second)], [info_of(first), info_of(second)]
    alone = [
        generate_audio(SMALL, [p], [i], async_chunk=True)[0] for p, i in zip(prompts, infos, strict=True)
    ]
    prompts.insert(place, bad[0])
    infos.insert(place, bad[1])
    results = generate_audio(SMALL, prompts, infos, async_chunk=True)
    refused = results.pop(place)
    assert bad[2] in refused.error
    assert refused.waveform.numel() == 0
    for result, expected in zip(results, alone, strict=True):
        assert result.error is None
        torch.testing.assert_close(result.waveform, expected.waveform, atol=1e-12, rtol=0)


@pytest.mark.parametrize("info", [None, {}, {"meta": {}}])
def test_missing_metadata_counts_for_its_own_row_only(info):
    decoder = PositionDecoder(2, 12, 18, 3)
    rows = [CodecRow(window(20, 29), 4), CodecRow(window(0, 10), 0)]
    prompts = [prompt_of(row) for row in rows]
    with_context, without = generate_audio(decoder, prompts, [info_of(rows[0]), info], async_chunk=True)
    assert with_context.waveform.tolist() == list(range(24 * 12 - 18, 49 * 12 - 18))
    assert without.waveform.tolist() == list(range(10 * 12 - 18))


@pytest.mark.parametrize("nothing", [[], [0]])
def test_a_boundary_without_codes_says_nothing_and_disturbs_nobody(nothing):
    silent, heard = generate_audio(
        POSITION, [nothing, prompt_of(CodecRow(window(0, 5)))], [{}, {}], async_chunk=True
    )
    assert (silent.error, silent.waveform.numel()) == (None, 0)
    assert heard.waveform.tolist() == list(range(5 * 12 - 18))


def test_worked_batch_of_29_with_4_and_10_with_0():
    decoder = PositionDecoder()
    rows = [CodecRow(torch.arange(29).repeat(16, 1), 4), CodecRow(torch.arange(10).repeat(16, 1), 0)]
    for order in itertools.permutations(range(2)):
        audio = chunked_decode_streaming(decoder, [rows[i] for i in order])
        long, short = audio[order.index(0)], audio[order.index(1)]
        assert (long.numel(), short.numel()) == (48_000, 18_645)
        assert long.tolist() == list(range(7_125, 55_125))
        assert short.tolist() == list(range(18_645))


def test_the_next_chunk_of_the_shorter_row_joins_on():
    decoder = PositionDecoder(16, 1920, 555, 6)
    codes = torch.arange(35).repeat(16, 1)
    first = chunked_decode_streaming(decoder, [CodecRow(codes[:, :29], 4), CodecRow(codes[:, :10], 0)])[1]
    second = chunked_decode_streaming(decoder, [CodecRow(codes[:, :35], 10)])[0]
    assert torch.equal(torch.cat([first, second]), torch.arange(35 * 1920 - 555))


def test_the_full_decoder_is_independent_within_its_tolerance():
    decoder = Code2WavDecoder()
    generator = torch.Generator().manual_seed(7)
    rows = [
        CodecRow(torch.randint(0, 2048, (16, n), generator=generator), c)
        for n, c in [(29, 4), (10, 0), (4, 0)]
    ]
    alone = [chunked_decode_streaming(decoder, [row])[0] for row in rows]
    for order in itertools.permutations(range(3)):
        for i, audio in zip(order, chunked_decode_streaming(decoder, [rows[i] for i in order]), strict=True):
            torch.testing.assert_close(audio, alone[i], atol=1e-5, rtol=0)
