"""Guards of the codec edge by worked numbers: 80 frames at 4, 25 and 25, twice in one session."""

from types import SimpleNamespace

import pytest
import torch

from omni_verify.pipeline.code2wav import row_from_prompt
from omni_verify.pipeline.processors import talker2code2wav_async_chunk

Q, STOP = 3, 2150
SIZES = {"initial_codec_chunk_frames": 4, "codec_chunk_frames": 25, "codec_left_context_frames": 25}
PLAN = [(4, 4, 0, 0), (29, 29, 4, 0), (54, 50, 25, 4), (79, 50, 25, 29), (80, 26, 25, 54)]
"""(frames so far, frames in the chunk, left context, first frame) of each chunk."""


class Edge:
    """The sending adapter as the processor sees it; every put succeeds."""

    def __init__(self):
        self.put_req_chunk, self.ramp_chunk_count, self.code_prompt_token_ids = {}, {}, {}
        self.connector = SimpleNamespace(config=SIZES)
        self.request = SimpleNamespace(
            external_req_id="R", sampling_params=SimpleNamespace(stop_token_ids=[STOP])
        )

    def step(self, rows, *, finished=False, valid=None):
        output = {"codes": {"audio": torch.tensor(rows).reshape(-1, Q)}, "meta": {"codec_frame_valid": valid}}
        payload = talker2code2wav_async_chunk(self, output, self.request, finished)
        if payload is not None:
            for counter in (self.put_req_chunk, self.ramp_chunk_count):
                counter["R"] = counter.get("R", 0) + 1
        return payload

    def segment(self, frames):
        """Run one segment; return what `PLAN` lists, and the frames that are new in each chunk."""
        seen, new = [], []
        for number in range(frames):
            payload = self.step([[number, 100 + number, 200]], finished=number == frames - 1)
            if payload is not None:
                codes = payload.codes.audio[: payload.codes.audio.numel() // Q].tolist()
                context = payload.meta.left_context_size
                seen.append((number + 1, len(codes), context, codes[0]))
                new += codes[context or 0 :]
        self.ramp_chunk_count.clear()
        self.code_prompt_token_ids.clear()
        return seen, new


@pytest.mark.invariant("I11", "I13")
def test_80_frames_leave_as_planned_in_each_segment():
    edge = Edge()
    for _ in range(2):
        assert edge.segment(80) == (PLAN, list(range(80)))


@pytest.mark.invariant("I13b")
def test_validity_is_decided_row_by_row():
    placeholder, stop, frame, silence = [0, 0, 0], [STOP, 5, 6], [7, 8, 9], [0, 0, 0]
    rows = torch.tensor([frame, placeholder, stop, frame])
    assert Edge().step(rows.tolist(), finished=True).codes.audio.tolist() == [7, 7, 8, 8, 9, 9]
    assert Edge().step([placeholder, frame], finished=True).codes.audio.tolist() == [7, 8, 9]
    explicit = Edge().step([silence, frame], finished=True, valid=torch.tensor([True, False]))
    assert explicit.codes.audio.tolist() == [0, 0, 0]


@pytest.mark.invariant("I12")
def test_codes_travel_codebook_by_codebook_and_come_back_as_frames():
    flat = Edge().step([[1, 2, 3], [4, 5, 6]], finished=True).codes.audio
    assert flat.tolist() == [1, 4, 2, 5, 3, 6]
    assert row_from_prompt([1, 4, 2, 5, 3, 6], Q, 2048).T.tolist() == [[1, 2, 3], [4, 5, 6]]
