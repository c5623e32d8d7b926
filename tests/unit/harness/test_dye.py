"""No mix-up of dyed frames can hide: what is read equals what was painted, or the checks see it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from omni_verify.checks import Delivered, Observation, Sent
from omni_verify.checks.streams import check_frames
from omni_verify.errors import UsageError
from omni_verify.harness import dye
from omni_verify.harness.dye import CODEBOOKS, Frame

STREAMS = st.integers(1, 2048**2 - 1)
GENERATIONS = st.integers(1, 2047)
FIRST = st.integers(0, 2048**2 - 100)
COUNTS = st.integers(1, 12)


def judge(codes, *, stream, generation, sent):
    """The findings on one finished stream that got these codes."""
    frames, broken = dye.read(codes)
    names = {stream: "R"}
    got = Delivered(
        label="R",
        stage="consumer",
        generation=generation,
        frames=[(names.get(f.stream, "another"), f.generation, f.index) for f in frames],
        broken=broken,
        finishes=1,
    )
    source = Sent(label="R", stage="producer", generation=generation, frames=sent, ended=True)
    return check_frames(Observation(delivered=[got], sent=[source]))


@given(STREAMS, GENERATIONS, FIRST, st.integers(0, 12))
def test_what_is_painted_is_read(stream, generation, first, count):
    rows = dye.paint(stream, generation, first, count)
    assert all(0 <= code < 2048 for row in rows for code in row), "a stop token or out of range"
    assert dye.read(dye.flatten(rows)) == ([Frame(stream, generation, first + i) for i in range(count)], [])


@given(STREAMS, GENERATIONS, COUNTS)
def test_a_whole_stream_has_no_finding(stream, generation, count):
    codes = dye.flatten(dye.paint(stream, generation, 0, count))
    assert judge(codes, stream=stream, generation=generation, sent=count) == []


@given(STREAMS, GENERATIONS, st.integers(2, 12))
def test_frame_major_layout_is_seen(stream, generation, count):
    rows = dye.paint(stream, generation, 0, count)
    assert judge([c for row in rows for c in row], stream=stream, generation=generation, sent=count)


@given(STREAMS, GENERATIONS, st.integers(2, 4), st.data())
def test_any_other_order_of_the_codes_is_seen(stream, generation, count, data):
    codes = dye.flatten(dye.paint(stream, generation, 0, count))
    shuffled = data.draw(st.permutations(codes))
    assume(shuffled != codes)
    assert judge(shuffled, stream=stream, generation=generation, sent=count)


@given(STREAMS, GENERATIONS, COUNTS, st.data())
def test_any_changed_code_is_seen(stream, generation, count, data):
    codes = dye.flatten(dye.paint(stream, generation, 0, count))
    at, value = data.draw(st.integers(0, len(codes) - 1)), data.draw(st.integers(0, 2047))
    assume(codes[at] != value)
    codes[at] = value
    assert judge(codes, stream=stream, generation=generation, sent=count)


@given(STREAMS, GENERATIONS, st.integers(2, 12), st.data())
def test_hole_duplicate_and_reorder_are_seen(stream, generation, count, data):
    rows = dye.paint(stream, generation, 0, count)
    at = data.draw(st.integers(0, count - 1))
    hole = rows[:at] + rows[at + 1 :]
    double = rows[: at + 1] + rows[at:]
    swapped = data.draw(st.permutations(rows))
    for changed in (hole, double, *([swapped] if swapped != rows else [])):
        assert judge(dye.flatten(changed), stream=stream, generation=generation, sent=count)


@given(st.tuples(STREAMS, GENERATIONS), st.tuples(STREAMS, GENERATIONS), COUNTS, st.data())
def test_a_foreign_frame_is_seen(own, other, count, data):
    assume(own != other)
    rows = dye.paint(*own, 0, count)
    at = data.draw(st.integers(0, count - 1))
    rows[at] = dye.paint(*other, at, 1)[0]
    (broken,) = judge(dye.flatten(rows), stream=own[0], generation=own[1], sent=count)
    assert "I30" in broken.family


@pytest.mark.parametrize("count", [1, CODEBOOKS - 1, CODEBOOKS + 1])
def test_codes_that_are_no_whole_frames(count):
    frames, broken = dye.read([1] * count)
    assert frames == []
    assert broken == [f"{count} codes are no multiple of {CODEBOOKS} codebooks"]


def test_zeros_are_no_frame():
    assert dye.read([0] * CODEBOOKS)[0] == []


@pytest.mark.parametrize(
    ("stream", "generation", "index"),
    [(1, 1, 2048**2), (1, 2048, 0), (1, 0, 0), (2048**2, 1, 0), (0, 1, 0), (1, 1, -1)],
)
def test_what_the_dye_cannot_tell_apart_is_refused(stream, generation, index):
    with pytest.raises(UsageError, match="no dye tells"):
        dye.paint(stream, generation, index, 1)


@given(st.text())
def test_a_stream_number_fits_the_dye(label):
    assert dye.stream_number(label) == dye.stream_number(label)
    dye.paint(dye.stream_number(label), 1, 0, 1)
