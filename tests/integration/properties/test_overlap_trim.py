"""I47, I47b: the windows of a stream join to one decode of the whole, and only with enough context."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_verify.contracts.chunk_plan import ChunkRule, plan_segment
from omni_verify.contracts.overlap_trim import (
    check_pieces,
    delivered,
    needed_context,
    piece_of_window,
    tail_of_rates,
)
from omni_verify.pipeline.code2wav import CodecRow, chunked_decode, chunked_decode_streaming
from omni_verify.pipeline.models import Code2WavDecoder, PositionDecoder, small_decoder, tail_samples

U, TAIL = 1920, 555
DECODER, SMALL = Code2WavDecoder(), small_decoder()
CONV_FIELD, SMALL_FIELD = 3, 6


def numbered(frames, codebooks=2):
    return torch.arange(frames).repeat(codebooks, 1)


def random_codes(frames, codebooks, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2048, (codebooks, frames), generator=generator)


def pieces_of(decoder, codes, rule):
    return [
        chunked_decode_streaming(decoder, [CodecRow(codes[:, chunk.first : chunk.last], chunk.context)])[0]
        for chunk in plan_segment(codes.shape[1], rule)
    ]


RULES = st.builds(ChunkRule, st.integers(0, 6), st.integers(1, 7), st.integers(0, 12))


@given(RULES, st.integers(1, 40), st.integers(1, 8), st.sampled_from([(12, 18), (12, 5), (7, 0), (20, 6)]))
def test_a_stream_equals_one_decode_exactly_if_the_context_suffices(rule, frames, field, shape):
    upsample, tail = shape
    field = max(field, -(-tail // upsample))  # a decoder cannot look further ahead than it looks back
    decoder = PositionDecoder(2, upsample, tail, field)
    stream = torch.cat(pieces_of(decoder, numbered(frames), rule))
    whole = torch.arange(delivered(frames, upsample, tail))
    plan = plan_segment(frames, rule)
    enough = all(chunk.context >= needed_context(chunk.first + chunk.context, field) for chunk in plan)
    if enough:
        assert torch.equal(stream, whole)
    else:
        heard = any(
            delivered(c.first + c.context, upsample, tail) < delivered(c.last, upsample, tail) for c in plan
        )
        assert not heard or not torch.equal(stream, whole)


@given(RULES, st.integers(1, 30))
def test_every_piece_lies_where_the_utterance_needs_it(rule, frames):
    decoder = PositionDecoder(2, 12, 18, 2)
    rule = ChunkRule(rule.initial, rule.chunk, 2 + rule.left_context)
    for chunk, piece in zip(
        plan_segment(frames, rule), pieces_of(decoder, numbered(frames), rule), strict=True
    ):
        start, end = piece_of_window(chunk.first, chunk.context, chunk.window, 12, 18)
        assert piece.tolist() == list(range(start, end))


@given(RULES, st.integers(2, 30), st.integers(0, 5))
@settings(max_examples=30)
def test_a_convolutional_stream_equals_one_decode(rule, frames, seed):
    rule = ChunkRule(rule.initial, rule.chunk, max(rule.left_context, SMALL_FIELD))
    codes = random_codes(frames, 2, seed)
    stream = torch.cat(pieces_of(SMALL, codes, rule))
    torch.testing.assert_close(stream, SMALL(codes[None])[0, 0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("left_context", range(2, SMALL_FIELD))
def test_a_convolutional_stream_differs_below_the_receptive_field(left_context):
    codes = random_codes(40, 2)
    stream = torch.cat(pieces_of(SMALL, codes, ChunkRule(0, 7, left_context)))
    whole = SMALL(codes[None])[0, 0]
    assert stream.shape == whole.shape
    assert (stream - whole).abs().max() > 1e-6


def test_the_full_decoder_streams_79_frames_as_it_decodes_them():
    codes = random_codes(79, 16)
    pieces = pieces_of(DECODER, codes, ChunkRule())
    assert [piece.numel() for piece in pieces] == [7125, 48000, 48000, 48000]
    stream, whole = torch.cat(pieces), DECODER(codes[None])[0, 0]
    assert stream.numel() == 79 * U - TAIL == 151_125
    torch.testing.assert_close(stream, whole, atol=1e-5, rtol=0)
    assert whole.abs().max() > 0.1
    short = torch.cat(pieces_of(DECODER, codes, ChunkRule(4, 25, CONV_FIELD - 1)))
    assert (short - whole).abs().max() > 1e-3


@pytest.mark.parametrize("frames", [1, 24, 299, 300, 301, 330, 599, 600, 601])
def test_the_offline_decode_obeys_the_same_law(frames):
    decoder = PositionDecoder()
    audio = chunked_decode(decoder, [CodecRow(numbered(frames, 16))])[0]
    assert check_pieces([audio.numel()], frames, U, TAIL) == []
    assert torch.equal(audio, torch.arange(frames * U - TAIL))


def test_330_frames_offline_with_convolutions():
    codes = random_codes(330, 16)
    audio = chunked_decode(DECODER, [CodecRow(codes)])[0]
    assert audio.numel() == 633_045
    torch.testing.assert_close(audio, DECODER(codes[None])[0, 0], atol=1e-5, rtol=0)


@given(st.lists(st.integers(1, 9), max_size=5))
def test_both_formulas_of_the_tail_agree(rates):
    assert tail_samples(tuple(rates)) == tail_of_rates(rates)


def test_the_tail_of_the_main_example():
    assert tail_of_rates((8, 5, 4, 3)) == DECODER.tail == TAIL
    assert DECODER.total_upsample == U
    assert DECODER(random_codes(50, 16)[None]).shape == (1, 1, 95_445)
    assert (SMALL.total_upsample, SMALL.tail) == (12, 18)
