"""From prompt ids to samples: the published table, malformed rows, slices."""

import pytest
import torch

from omni_verify.pipeline.code2wav import (
    CodecRow,
    chunked_decode_streaming,
    generate_audio,
    pad_batch,
    row_from_request,
    streaming_slice,
    withheld_tail,
)
from omni_verify.pipeline.models import PositionDecoder


@pytest.mark.parametrize(
    ("window", "context", "decoded", "start", "end"),
    [
        (4, 0, 7_125, 0, 7_125),
        (29, 4, 55_125, 7_125, 55_125),
        (50, 25, 95_445, 47_445, 95_445),
        (32, 25, 60_885, 47_445, 60_885),
        (2, 0, 3_285, 0, 3_285),
    ],
)
def test_the_published_slices(window, context, decoded, start, end):
    tail = withheld_tail(window, decoded, 1920)
    assert tail == 555
    assert streaming_slice(context, window, tail, 1920) == (start, end)
    row = CodecRow(torch.arange(40, 40 + window).repeat(16, 1), context)
    assert chunked_decode_streaming(PositionDecoder(receptive_field=0), [row])[0].numel() == end - start


def test_a_shorter_row_of_a_batch_ends_at_its_own_tail():
    assert streaming_slice(0, 10, 555, 1920) == (0, 18_645)


def test_a_decoder_that_withholds_nothing_needs_no_correction():
    assert streaming_slice(4, 29, withheld_tail(29, 29 * 1920, 1920), 1920) == (4 * 1920, 29 * 1920)


def test_a_row_keeps_its_frames_and_is_padded_on_the_right():
    rows = [
        row_from_request([1, 2, 11, 12], {"meta": {"left_context_size": 1}}, 2, 2048),
        CodecRow(torch.ones(2, 3)),
    ]
    assert rows[0].codes.tolist() == [[1, 2], [11, 12]]
    assert (rows[0].frames, rows[0].context, rows[0].error) == (2, 1, None)
    assert pad_batch(rows)[0].tolist() == [[1, 2, 0], [11, 12, 0]]


@pytest.mark.parametrize(
    ("ids", "context", "reason"),
    [
        ([1, 2, 3], 0, "3 codec ids are no whole number of frames of 2 codebooks"),
        ([1, 2048], 0, r"codec ids must lie in \[0, 2048\)"),
        ([1, -1], 0, "codec ids must lie in"),
        ([1, 2], 2, r"left_context_size must be an integer in \[0, 1\] frames, got 2"),
        ([1, 2], -1, "left_context_size"),
        ([1, 2], "1", "left_context_size"),
        ([], 1, "left_context_size"),
    ],
)
def test_a_bad_row_says_why(ids, context, reason):
    row = row_from_request(ids, {"meta": {"left_context_size": context}}, 2, 2048)
    assert row.frames == 0
    with pytest.raises(ValueError, match=reason):
        raise ValueError(row.error)


def test_complete_utterances_are_decoded_in_blocks():
    decoder = PositionDecoder(1, 4, 2, 3)
    prompts = [list(range(700)), list(range(3))]
    rows = generate_audio(decoder, prompts, [{}, {}], async_chunk=False)
    assert [row.waveform.tolist() for row in rows] == [list(range(2798)), list(range(10))]


def test_an_empty_batch_is_no_work():
    assert generate_audio(PositionDecoder(), [], [], async_chunk=True) == []
    assert generate_audio(PositionDecoder(), [], [], async_chunk=False) == []
    assert generate_audio(PositionDecoder(), [[]], [{}], async_chunk=False)[0].waveform.numel() == 0
