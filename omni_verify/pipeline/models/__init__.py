"""The models of the reference pipeline: small, seeded, without downloads, the same on CPU and GPU."""

from __future__ import annotations

from omni_verify.pipeline.models.ar_engine import ArEngine, ArRequest, ArStepOutput
from omni_verify.pipeline.models.decoder import Code2WavDecoder, Decoder, small_decoder, tail_samples
from omni_verify.pipeline.models.forced_aligner import ForcedAligner
from omni_verify.pipeline.models.position_decoder import POISON, PositionDecoder
from omni_verify.pipeline.models.talker import CODEBOOK_SIZE, CODEBOOKS, STOP_TOKEN, Talker
from omni_verify.pipeline.models.talker_engine import TalkerEngine
from omni_verify.pipeline.models.thinker import Thinker
from omni_verify.pipeline.models.thinker_engine import ThinkerEngine

__all__ = [
    "CODEBOOKS",
    "CODEBOOK_SIZE",
    "POISON",
    "STOP_TOKEN",
    "ArEngine",
    "ArRequest",
    "ArStepOutput",
    "Code2WavDecoder",
    "Decoder",
    "ForcedAligner",
    "PositionDecoder",
    "Talker",
    "TalkerEngine",
    "Thinker",
    "ThinkerEngine",
    "small_decoder",
    "tail_samples",
]
