"""I11, I13: every chunk of every small configuration carries exactly the planned frames."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.contracts.chunk_plan import ChunkRule, check_chunks, full_chunks, plan_segment
from omni_verify.pipeline.config import ChunkSizes
from omni_verify.pipeline.processors.chunking import chunk_window


def extra_of(rule):
    extra = {
        "initial_codec_chunk_frames": rule.initial,
        "codec_chunk_frames": rule.chunk,
        "codec_left_context_frames": rule.left_context,
    }
    return {**extra, "codec_chunk_ramp": list(rule.ramp)} if rule.ramp else extra


def windows(rule, frames):
    """Cut a segment of one-frame steps with the production arithmetic and its end in a step of its own."""
    sizes, chunks = ChunkSizes.from_extra(extra_of(rule)), []
    for n, flush in [*((n, False) for n in range(1, frames + 1)), (frames, True)]:
        window = chunk_window(n, len(chunks), sizes, flush=flush)
        if window is not None:
            chunks.append((list(range(window.first, window.last)), window.context))
        if not flush:
            assert len(chunks) == len(full_chunks(n, rule)), f"a chunk is late or early at frame {n}"
    return chunks


@pytest.mark.parametrize("initial", range(7))
def test_every_small_configuration_follows_the_plan(initial):
    for chunk, left_context, frames in itertools.product(range(1, 8), range(9), range(41)):
        rule = ChunkRule(initial, chunk, left_context)
        assert check_chunks(windows(rule, frames), frames, rule) == [], (rule, frames)


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=5),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(0, 60),
)
def test_every_ramp_follows_the_plan(ramp, chunk, left_context, frames):
    rule = ChunkRule(4, chunk, left_context, tuple(ramp))
    assert check_chunks(windows(rule, frames), frames, rule) == []


@given(
    st.integers(0, 6),
    st.integers(1, 7),
    st.integers(0, 8),
    st.sampled_from([1, 2, 16]),
    st.integers(0, 40),
    st.booleans(),
)
def test_the_processor_sends_the_planned_chunks(
    codec_edge, frames_of_length, observe, initial, chunk, left_context, codebooks, frames, ends_on_frame
):
    rule = ChunkRule(initial, chunk, left_context)
    edge, seen = codec_edge(extra_of(rule)), []
    rows = frames_of_length(frames, codebooks)
    steps = [([row], ends_on_frame and t == frames - 1) for t, row in enumerate(rows)]
    if not (ends_on_frame and frames):
        steps.append((frames_of_length(0, codebooks) or [[2150] + [0] * (codebooks - 1)], True))
    for row, finished in steps:
        payload = edge.step(row, finished=finished, valid=[row[0][0] != 2150])
        if payload is not None:
            assert payload.codes.audio.ndim == 1
            assert bool(payload.meta.finished) is finished
            seen.append(observe(payload, codebooks))
    assert check_chunks(seen, frames, rule) == []


@given(
    st.integers(1, 7),
    st.integers(0, 8),
    st.integers(0, 6),
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
)
def test_steps_of_several_rows_keep_the_chunk_sizes(
    codec_edge, frames_of_length, observe, chunk, left_context, initial, steps
):
    rule = ChunkRule(initial, chunk, left_context)
    edge, seen, done = codec_edge(extra_of(rule)), [], 0
    for i, n in enumerate(steps):
        payload = edge.step(frames_of_length(n, 2, done), finished=i == len(steps) - 1)
        done += n
        if payload is not None:
            seen.append(observe(payload, 2))
    assert check_chunks(seen, done, rule) == []


def test_worked_chunks_of_79_frames():
    plan = plan_segment(79, ChunkRule())
    assert [chunk.window for chunk in plan] == [4, 29, 50, 50]
    assert [chunk.context for chunk in plan] == [0, 4, 25, 25]
    assert [(chunk.first, chunk.last - 1) for chunk in plan] == [(0, 3), (0, 28), (4, 53), (29, 78)]
    assert windows(ChunkRule(), 79) == [(list(range(c.first, c.last)), c.context) for c in plan]


@pytest.mark.parametrize(("frames", "last"), [(80, (26, 25)), (103, (49, 25)), (2, (2, 0)), (79, (50, 25))])
def test_worked_flushes(frames, last):
    numbers, context = windows(ChunkRule(), frames)[-1]
    assert (len(numbers), context) == last
    assert numbers[-1] == frames - 1


def test_the_context_never_exceeds_the_limit_when_the_first_chunk_is_longer():
    assert [context for _, context in windows(ChunkRule(30, 25, 25), 80)] == [0, 25, 25]
    assert [context for _, context in windows(ChunkRule(4, 25, 72), 79)] == [0, 4, 29, 54]


@pytest.mark.parametrize(
    ("chunks", "word"),
    [
        ([(range(5), 0)], "expected"),
        ([(range(4), 0), (range(29), 0)], "left_context_size 4"),
        ([(range(4), 0), (range(1, 30), 4)], "frames 0..28"),
        ([(range(4), 0)], "expected 2 chunks"),
    ],
)
def test_the_check_names_what_is_wrong(chunks, word):
    assert any(word in problem for problem in check_chunks(chunks, 29, ChunkRule()))
