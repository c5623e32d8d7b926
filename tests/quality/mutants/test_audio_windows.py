"""Guards of decoding with a decoder that says which frame each sample belongs to."""

import pytest
import torch

from omni_verify.contracts.codec_layout import wire_order
from omni_verify.pipeline.code2wav import CodecRow, chunked_decode, generate_audio
from omni_verify.pipeline.models import PositionDecoder

U, TAIL = 12, 18
WINDOWS = [(0, 4, 0), (0, 29, 4), (4, 50, 25), (29, 50, 25)]
"""(first frame, frames, left context) of the chunks of 79 frames at 4, 25 and 25."""


def prompt(first, frames):
    return wire_order([[n, n] for n in range(first, first + frames)])


def info(context):
    return {"meta": {"left_context_size": context}}


def decode(*windows):
    prompts, infos = [prompt(a, n) for a, n, _ in windows], [info(c) for *_, c in windows]
    rows = generate_audio(PositionDecoder(2, U, TAIL, 3), prompts, infos, async_chunk=True)
    return [row.waveform.tolist() for row in rows]


@pytest.mark.invariant("I47")
def test_the_windows_of_a_stream_join_to_one_decode():
    joined = [sample for window in WINDOWS for sample in decode(window)[0]]
    assert joined == list(range(79 * U - TAIL))


@pytest.mark.invariant("I48")
def test_a_row_sounds_as_it_does_alone():
    assert decode(*WINDOWS[1:3], WINDOWS[0]) == [decode(w)[0] for w in (*WINDOWS[1:3], WINDOWS[0])]
    rows = generate_audio(
        PositionDecoder(2, U, TAIL, 3), [prompt(20, 29), prompt(0, 10)], [info(4), None], async_chunk=True
    )
    assert rows[0].waveform.tolist() == list(range(24 * U - TAIL, 49 * U - TAIL))


@pytest.mark.invariant("I47b")
def test_blocks_of_a_whole_utterance_join_to_one_decode():
    row = CodecRow(torch.arange(70).repeat(2, 1))
    audio = chunked_decode(PositionDecoder(2, U, TAIL, 3), [row], chunk_size=30, left_context_size=5)[0]
    assert audio.tolist() == list(range(70 * U - TAIL))
