"""I12: the wire order of codes, value by value, in both directions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.contracts.codec_layout import check_layout, frames_of, wire_order
from omni_verify.pipeline.code2wav import row_from_prompt
from omni_verify.pipeline.processors.layout import flatten_codebook_major

codebooks = st.sampled_from([1, 2, 3, 16])


@st.composite
def frame_lists(draw):
    q = draw(codebooks)
    frame = st.lists(st.integers(0, 2047), min_size=q, max_size=q)
    return draw(st.lists(frame, min_size=1, max_size=12))


@given(frame_lists())
def test_the_sender_flattens_codebook_by_codebook(frames):
    flat = flatten_codebook_major(torch.tensor(frames))
    assert flat.dtype == torch.int64
    assert flat.ndim == 1
    assert check_layout(flat.tolist(), frames) == []


@given(frame_lists())
def test_the_receiver_restores_every_value(frames):
    codes = row_from_prompt(wire_order(frames), len(frames[0]), 2048)
    assert codes.shape == (len(frames[0]), len(frames))
    assert all(codes[q, t] == frames[t][q] for t in range(len(frames)) for q in range(len(frames[0])))


@given(frame_lists())
def test_both_directions_cancel(frames):
    flat = flatten_codebook_major(torch.tensor(frames)).tolist()
    assert frames_of(flat, len(frames[0])) == frames
    assert row_from_prompt(flat, len(frames[0]), 2048).T.tolist() == frames


def test_a_row_major_flattening_is_reported_with_its_first_wrong_place():
    frames = [[0, 10], [1, 11], [2, 12]]
    problems = check_layout([code for frame in frames for code in frame], frames)
    assert problems == ["4 of 6 codes differ, first at codebook 0, frame 1: expected 1, got 10"]
