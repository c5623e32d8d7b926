"""Talker to Code2Wav: collects codec frames and cuts them into chunks (article sections 3.3 to 3.5).

Runs on the adapter's save thread, once per model step. The scratch state of a request lives on the
transfer adapter, which drops it when the segment, the stream or the request ends.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch

from omni_verify.contracts.payload_schema import CodesStruct, MetaStruct, OmniPayloadStruct
from omni_verify.pipeline.config.chunk_sizes import ChunkSizes
from omni_verify.pipeline.processors.chunking import ChunkWindow, chunk_window
from omni_verify.pipeline.processors.layout import flatten_codebook_major
from omni_verify.pipeline.processors.validity import valid_frames

__all__ = ["codec_rows", "sizes_of", "stop_tokens_of", "talker2code2wav_async_chunk"]

logger = logging.getLogger(__name__)


def talker2code2wav_async_chunk(
    transfer_manager: Any,
    multimodal_output: Mapping[str, Any] | None,
    request: Any,
    is_finished: bool = False,  # noqa: FBT001 - the public signature
) -> OmniPayloadStruct | None:
    """Add the step's valid frames and return the chunk that became due, or None.

    None at the end of a stream means "no new audio": the adapter still sends the terminal (I14).

    Args:
        transfer_manager: the adapter; ``code_prompt_token_ids[ext]`` holds the segment's frames
            (``[Q]`` int64 each), ``ramp_chunk_count[ext]`` the chunks of the segment that were put.
        multimodal_output: ``codes.audio`` int64 ``[n, Q]`` and optionally ``meta.codec_frame_valid``.
        request: snapshot with ``external_req_id`` and ``sampling_params``.
        is_finished: the segment or the stream ends: flush.

    Raises:
        ValueError: the codes are no ``[n, Q]`` integers, or the validity flags do not fit them.
    """
    ext = request.external_req_id
    meta = (multimodal_output or {}).get("meta") or {}
    rows = codec_rows(multimodal_output)
    frames = transfer_manager.code_prompt_token_ids.setdefault(ext, [])
    frames.extend(valid_frames(rows, meta.get("codec_frame_valid"), stop_tokens_of(request)))
    window = chunk_window(
        len(frames), chunks_put(transfer_manager, ext), sizes_of(transfer_manager), flush=is_finished
    )
    logger.debug("%s: %d frames, %s", ext, len(frames), window or "none due")
    if window is None:
        return None
    first_audio = meta.get("first_audio") if transfer_manager.put_req_chunk.get(ext, 0) == 0 else None
    return codec_payload(frames, window, finished=is_finished, first_audio=first_audio)


def chunks_put(transfer_manager: Any, ext: str) -> int:
    """Return the chunks of the current segment whose put succeeded.

    Not ``put_req_chunk``: that numbers the chunks of the whole stream, over all its segments (W5).
    """
    return int(transfer_manager.ramp_chunk_count.get(ext, 0))


def codec_payload(
    frames: list[torch.Tensor], window: ChunkWindow, *, finished: bool, first_audio: Any = None
) -> OmniPayloadStruct:
    """Build the payload of one window; ``left_context_size`` is always there, also when 0 (I11)."""
    codes = torch.stack(frames[window.first : window.last])
    meta = MetaStruct(left_context_size=window.context, finished=torch.tensor(finished))
    if first_audio is not None:
        meta.first_audio = bool(first_audio)
    return OmniPayloadStruct(codes=CodesStruct(audio=flatten_codebook_major(codes)), meta=meta)


def codec_rows(multimodal_output: Mapping[str, Any] | None) -> torch.Tensor:
    """Return the step's codes as int64 ``[n, Q]`` on the CPU; ``[0, 0]`` where the step has none."""
    codes = ((multimodal_output or {}).get("codes") or {}).get("audio")
    if codes is None:
        return torch.zeros((0, 0), dtype=torch.int64)
    codes = torch.as_tensor(codes).detach().cpu()
    codes = codes.unsqueeze(0) if codes.ndim == 1 else codes
    if codes.ndim != 2 or codes.is_floating_point():
        raise ValueError(
            f"codes.audio must be integers of shape [rows, codebooks], got {codes.dtype} {tuple(codes.shape)}"
        )
    return codes.to(torch.int64)


def sizes_of(transfer_manager: Any) -> ChunkSizes:
    """Read the edge's chunk sizes from the connector's configuration."""
    config = transfer_manager.connector.config
    return ChunkSizes.from_extra(config.get("extra", config))


def stop_tokens_of(request: Any) -> frozenset[int]:
    """Return the tokens that end the Talker's utterance."""
    params = getattr(request, "sampling_params", None)
    single = getattr(params, "stop_token_id", None)
    return frozenset(getattr(params, "stop_token_ids", None) or ()) | (
        {single} if single is not None else set()
    )
