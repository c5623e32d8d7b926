"""Processors and payload: which frames a chunk carries, and what survives the wire."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I11",
        "A payload with codec codes states an integer left_context_size with 0 <= context <= "
        "min(frames sent before, left context limit), and context plus new frames is the window.",
        Scope.PROCESSOR,
        "article section 3.5; vllm-omni#4421",
    ),
    Invariant(
        "I12",
        "codes.audio is 1-D int64 of Q*T values, codebook-major: element q*T + t is codebook q of frame t.",
        Scope.PROCESSOR,
        "article section 3.4",
    ),
    Invariant(
        "I13",
        "Within a segment, the new frames of all chunks are exactly the valid frames, each once and "
        "in order, cut at the configured sizes.",
        Scope.PROCESSOR,
        "article sections 3.4 and 3.5; vllm-omni#6816",
    ),
    Invariant(
        "I13b",
        "Whether a row is a frame is decided for that row alone: by an explicit codec_frame_valid "
        "if there is one, else by all-zero rows and stop codes.",
        Scope.PROCESSOR,
        "article section 3.4",
    ),
    Invariant(
        "I14",
        "The end of a stream is always transmitted, with or without new frames, as finished in its "
        "last chunk.",
        Scope.PROCESSOR,
        "article section 3.5; vllm-omni#5383, #5413",
    ),
    Invariant(
        "I15",
        "The sender handles a struct and the receiver a dict, and every field of the schema "
        "survives the wire with its value, dtype and shape.",
        Scope.PAYLOAD,
        "article section 2.3",
    ),
    Invariant(
        "I16",
        "Model protocol lives in payload.meta; a get without any transport metadata returns the "
        "identical payload.",
        Scope.PAYLOAD,
        "article section 2.3",
    ),
    Invariant(
        "I17",
        "Flattening is injective on schema keys and unflattening undoes it; layer numbers are ints "
        "on both ends.",
        Scope.PAYLOAD,
        "article section 2.3",
    ),
    Invariant(
        "I17b",
        "A flag that is a 0-d bool tensor, a bool or None reads alike on both ends; only one- "
        "element tensors count.",
        Scope.PAYLOAD,
        "article section 2.5",
    ),
)
