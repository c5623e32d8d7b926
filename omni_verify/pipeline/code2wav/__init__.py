"""Code2Wav: codec ids of a batch of requests to the new samples of each."""

from __future__ import annotations

from omni_verify.pipeline.code2wav.decode import (
    DecodedRow,
    chunked_decode,
    chunked_decode_streaming,
    generate_audio,
)
from omni_verify.pipeline.code2wav.rows import CodecRow, pad_batch, row_from_prompt, row_from_request
from omni_verify.pipeline.code2wav.slices import streaming_slice, withheld_tail

__all__ = [
    "CodecRow",
    "DecodedRow",
    "chunked_decode",
    "chunked_decode_streaming",
    "generate_audio",
    "pad_batch",
    "row_from_prompt",
    "row_from_request",
    "streaming_slice",
    "withheld_tail",
]
