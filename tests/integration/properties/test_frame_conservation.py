"""I13, I13b, I14: whatever the steps and segments, each valid frame is sent once, in order."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.contracts.chunk_plan import ChunkRule, check_chunks

RULES = st.builds(ChunkRule, st.integers(0, 6), st.integers(1, 7), st.integers(0, 8))
Q = 3
KINDS = st.sampled_from(["frame", "frame", "frame", "placeholder", "stop"])


def extra_of(rule):
    return {
        "initial_codec_chunk_frames": rule.initial,
        "codec_chunk_frames": rule.chunk,
        "codec_left_context_frames": rule.left_context,
    }


def new_frames(payload):
    codes = payload.codes.audio.reshape(Q, -1)
    return codes[:, payload.meta.left_context_size :].T.tolist()


def rows_of(kinds, first):
    """Return the rows of one step and the frames among them."""
    rows, frames = [], []
    for kind in kinds:
        row = {"placeholder": [0] * Q, "stop": [2150, 5, 5]}.get(kind)
        if row is None:
            row = [first + len(frames), 1 + first, 2]
            frames.append(row)
        rows.append(row)
    return rows, frames


@given(
    RULES, st.lists(st.lists(st.lists(KINDS, min_size=1, max_size=4), max_size=12), min_size=1, max_size=4)
)
def test_every_segmentation_conserves_the_frames(codec_edge, rule, segments):
    edge = codec_edge(extra_of(rule))
    for steps in segments:
        sent, expected, seen = [], [], []
        for i, kinds in enumerate([*steps, ["placeholder"]]):
            rows, frames = rows_of(kinds, len(expected))
            expected += frames
            payload = edge.step(rows, finished=i == len(steps))
            if payload is not None:
                sent += new_frames(payload)
                numbers = payload.codes.audio.reshape(Q, -1)[0].tolist()
                seen.append((numbers, payload.meta.left_context_size))
        assert sent == expected
        assert check_chunks(seen, len(expected), rule) == []
        edge.end_segment()


@given(RULES, st.integers(1, 40), st.sets(st.integers(0, 60)))
def test_a_put_that_fails_loses_no_frame(codec_edge, frames_of_length, rule, frames, failing):
    edge, sent = codec_edge(extra_of(rule)), []
    for i, row in enumerate([*frames_of_length(frames, Q), *[[2150, 0, 0]] * 2]):
        put = i not in failing or i >= frames
        payload = edge.step([row], finished=i >= frames, put=put)
        if payload is not None and put:
            sent += new_frames(payload)
        if payload is not None and i >= frames:
            break
    assert [frame[0] for frame in sent] == list(range(frames))


@given(st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=8))
def test_explicit_validity_decides_alone_row_by_row(codec_edge, kinds):
    rows, _ = rows_of([kind for kind, _ in kinds], 0)
    valid = torch.tensor([flag for _, flag in kinds])
    payload = codec_edge({}).step(rows, finished=True, valid=valid)
    kept = [row for row, (_, flag) in zip(rows, kinds, strict=True) if flag]
    assert (payload is None) is (not kept)
    if payload is not None:
        assert new_frames(payload) == kept


@given(RULES, st.integers(0, 30))
def test_the_end_without_new_frames_is_left_to_the_adapter(codec_edge, frames_of_length, rule, frames):
    edge = codec_edge(extra_of(rule))
    for row in frames_of_length(frames, Q):
        edge.step([row])
    edge.step([[2150, 0, 0]], finished=True)
    edge_after = edge.step([[2150, 0, 0]], finished=True)
    assert edge_after is None
