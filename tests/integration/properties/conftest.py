"""The sending side of a codec edge, as the adapter keeps it, for properties of the processors."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, settings

from omni_verify.pipeline.processors import talker2code2wav_async_chunk

settings.register_profile(
    "properties", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("properties")

STOP = 2150


class CodecEdge:
    """Feeds the processor step by step and keeps the counters as a connector's put would."""

    def __init__(self, extra, ext="R"):
        self.ext = ext
        self.put_req_chunk, self.ramp_chunk_count, self.code_prompt_token_ids = {}, {}, {}
        self.request_payload, self._pending_streaming_prefills = {}, {}
        self.connector = SimpleNamespace(config=dict(extra))
        self.request = SimpleNamespace(
            external_req_id=ext, sampling_params=SimpleNamespace(stop_token_ids=[STOP])
        )

    def step(self, rows, *, finished=False, valid=None, put=True):
        """Run one model step; return the payload, and count it where the put succeeds."""
        output = {"codes": {"audio": torch.as_tensor(rows, dtype=torch.int64)}}
        if valid is not None:
            output["meta"] = {"codec_frame_valid": valid}
        payload = talker2code2wav_async_chunk(self, output, self.request, finished)
        if payload is not None and put:
            self.put_req_chunk[self.ext] = self.put_req_chunk.get(self.ext, 0) + 1
            self.ramp_chunk_count[self.ext] = self.ramp_chunk_count.get(self.ext, 0) + 1
        return payload

    def end_segment(self):
        """Drop what belongs to the segment; the chunk numbers of the stream go on."""
        self.ramp_chunk_count.pop(self.ext, None)
        self.code_prompt_token_ids.pop(self.ext, None)


def numbered_frames(n, codebooks, first=0):
    """Return frames whose codebook 0 is the frame's number and whose other codes are never 0."""
    return [
        [first + t, *(1 + (31 * (first + t) + 7 * q) % 2000 for q in range(1, codebooks))] for t in range(n)
    ]


def observed(payload, codebooks):
    """Return (frame numbers, left context) of a payload."""
    numbers = payload.codes.audio.reshape(codebooks, -1)[0].tolist()
    return numbers, payload.meta.left_context_size


@pytest.fixture(scope="session")
def codec_edge():
    return CodecEdge


@pytest.fixture(scope="session")
def frames_of_length():
    return numbered_frames


@pytest.fixture(scope="session")
def observe():
    return observed
