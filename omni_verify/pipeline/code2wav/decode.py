"""Decodes a batch of windows, streaming or offline, each row as if it were alone (I47, I47b, I48)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from omni_verify.pipeline.code2wav.rows import CodecRow, pad_batch, row_from_request
from omni_verify.pipeline.code2wav.slices import streaming_slice, withheld_tail
from omni_verify.pipeline.models.decoder import Decoder

__all__ = ["DecodedRow", "chunked_decode", "chunked_decode_streaming", "generate_audio"]


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """The new samples ``[n]`` of one request, or why its row was refused."""

    waveform: torch.Tensor
    error: str | None = None


def generate_audio(
    decoder: Decoder,
    prompts: Sequence[Sequence[int] | torch.Tensor],
    infos: Sequence[Mapping[str, Any] | None],
    *,
    async_chunk: bool,
) -> list[DecodedRow]:
    """Decode one scheduled batch.

    Args:
        decoder: the model.
        prompts: codebook-major codec ids of each request.
        infos: runtime information of each request, in the same order.
        async_chunk: the prompts are windows of streams; otherwise complete utterances, which are decoded
            in blocks to bound the memory.

    Returns:
        One result a request, in order.
    """
    rows = [
        row_from_request(prompt, info, decoder.num_quantizers, decoder.codebook_size)
        for prompt, info in zip(prompts, infos, strict=True)
    ]
    waveforms = chunked_decode_streaming(decoder, rows) if async_chunk else chunked_decode(decoder, rows)
    return [DecodedRow(waveform, row.error) for waveform, row in zip(waveforms, rows, strict=True)]


def chunked_decode_streaming(decoder: Decoder, rows: Sequence[CodecRow]) -> list[torch.Tensor]:
    """Return the new samples ``[n]`` of each window."""
    busy = [i for i, row in enumerate(rows) if row.frames]
    out = [torch.zeros(0)] * len(rows)
    if not busy:
        return out
    codes = pad_batch([rows[i] for i in busy]).to(device_of(decoder))
    decoded = decoder(codes)
    for b, i in enumerate(busy):
        start, end = new_samples(rows[i], codes.shape[-1], decoded.shape[-1], decoder.total_upsample)
        out[i] = decoded[b, 0, start:end]
    return out


def new_samples(
    row: CodecRow, window_frames: int, decoded_samples: int, total_upsample: int
) -> tuple[int, int]:
    """Return ``(start, end)`` of a row's new samples in its decoded window.

    The tail is that of the padded window: taken per row, a shorter row would get samples that depend on
    its padding (I48).
    """
    tail = withheld_tail(window_frames, decoded_samples, total_upsample)
    return streaming_slice(row.context, row.frames, tail, total_upsample)


def chunked_decode(
    decoder: Decoder, rows: Sequence[CodecRow], chunk_size: int = 300, left_context_size: int = 25
) -> list[torch.Tensor]:
    """Return the samples ``[N*U - tail]`` of complete utterances, decoded block by block.

    Every block is cut as a streaming window is, so the samples that a block withholds come out of the
    next one (W18); the rows of a batch end on their own (I48).

    Args:
        decoder: the model.
        rows: whole utterances; a context they carry is cut from the first block.
        chunk_size: new frames a block.
        left_context_size: frames decoded again before them; must cover the decoder's receptive field.
    """
    pieces: list[list[torch.Tensor]] = [[] for _ in rows]
    for start in range(0, max((row.frames for row in rows), default=0), chunk_size):
        blocks = [block_of(row, start, chunk_size, left_context_size) for row in rows]
        for i, piece in enumerate(chunked_decode_streaming(decoder, blocks)):
            pieces[i].append(piece)
    return [torch.cat([p for p in parts if p.numel()] or [torch.zeros(0)]) for parts in pieces]


def block_of(row: CodecRow, start: int, chunk_size: int, left_context_size: int) -> CodecRow:
    """Return frames ``[start, start + chunk_size)`` of a row with their left context."""
    context = min(start, left_context_size)
    end = min(start + chunk_size, row.frames)
    if end <= start:
        return CodecRow(row.codes[:, :0])
    skip = max(context, min(row.context, end) - (start - context))
    return CodecRow(row.codes[:, start - context : end], skip)


def device_of(decoder: Decoder) -> torch.device:
    """Return where the decoder's weights are; a decoder without weights works on the CPU."""
    parameters = getattr(decoder, "parameters", None)
    first = next(iter(parameters()), None) if parameters is not None else None
    return first.device if first is not None else torch.device("cpu")
