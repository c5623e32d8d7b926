"""Stage input processors: what one stage's output must look like to be the next stage's input.

Signature: ``processor(transfer_manager, multimodal_output, request, is_finished=False)`` returns the
payload that is due, or None.
"""

from __future__ import annotations

from omni_verify.pipeline.processors.accumulate import concat_outputs
from omni_verify.pipeline.processors.aligner import code2wav2aligner, decode_pooling_output
from omni_verify.pipeline.processors.full_payload import (
    talker2code2wav_full_payload,
    thinker2talker_full_payload,
    thinker2talker_token_only,
)
from omni_verify.pipeline.processors.prompts import talker_prompt_len
from omni_verify.pipeline.processors.talker2code2wav import talker2code2wav_async_chunk
from omni_verify.pipeline.processors.thinker2talker import thinker2talker_async_chunk
from omni_verify.pipeline.processors.words import segment_words

__all__ = [
    "code2wav2aligner",
    "concat_outputs",
    "decode_pooling_output",
    "segment_words",
    "talker2code2wav_async_chunk",
    "talker2code2wav_full_payload",
    "talker_prompt_len",
    "thinker2talker_async_chunk",
    "thinker2talker_full_payload",
    "thinker2talker_token_only",
]
