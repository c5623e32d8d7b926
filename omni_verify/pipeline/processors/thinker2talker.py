"""Thinker to Talker: first the conditions of the prompt, then those of each token (article section 3.2).

The Talker's first input must cover the prompt and the first generated position, so rows of the prompt
wait here, also when the prefill came in pieces. Afterwards every row leaves at once; a step of several
rows (speculative decoding) sends all of them (W22).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from omni_verify.contracts.payload_schema import (
    EmbeddingsStruct,
    HiddenStatesStruct,
    IdsStruct,
    MetaStruct,
    OmniPayloadStruct,
)
from omni_verify.pipeline.processors.hidden_rows import HiddenRows, hidden_rows
from omni_verify.pipeline.processors.prompts import request_texts

__all__ = ["covers_first_position", "thinker2talker_async_chunk"]


def thinker2talker_async_chunk(
    transfer_manager: Any,
    multimodal_output: Mapping[str, Any] | None,
    request: Any,
    is_finished: bool = False,  # noqa: FBT001 - the public signature
) -> OmniPayloadStruct | None:
    """Return the conditions that became due, or None.

    Args:
        transfer_manager: the adapter. ``put_req_chunk[ext]`` counts the stream's chunks,
            ``ramp_chunk_count[ext]`` those of the segment; ``request_payload[ext]`` keeps the rows of an
            unfinished first chunk, ``_pending_streaming_prefills[ext]`` those of a later segment's.
        multimodal_output: ``hidden_states.layers`` (embedding layer 0 and the accepted layer), floats
            ``[n, H]``; optionally ``embed.tts_bos``, ``tts_eos``, ``tts_pad``.
        request: snapshot with token ids.
        is_finished: the segment or the stream ends: send what there is.
    """
    ext = request.external_req_id
    rows = hidden_rows(transfer_manager, multimodal_output)
    if transfer_manager.put_req_chunk.get(ext, 0) == 0:
        return first_chunk(transfer_manager.request_payload, rows, multimodal_output, request, is_finished)
    transfer_manager.request_payload.pop(ext, None)
    if request.resumable and transfer_manager.ramp_chunk_count.get(ext, 0) == 0:
        waiting = transfer_manager._pending_streaming_prefills
        return first_chunk(waiting, rows, multimodal_output, request, is_finished, later_segment=True)
    transfer_manager._pending_streaming_prefills.pop(ext, None)
    if rows is None or len(rows) == 0:
        return None
    return OmniPayloadStruct(
        embed=EmbeddingsStruct(decode=rows.embed), meta=MetaStruct(finished=torch.tensor(is_finished))
    )


def first_chunk(
    waiting: dict[str, HiddenRows],
    rows: HiddenRows | None,
    multimodal_output: Mapping[str, Any] | None,
    request: Any,
    is_finished: bool,  # noqa: FBT001 - passed on
    *,
    later_segment: bool = False,
) -> OmniPayloadStruct | None:
    """Collect the rows of a segment's first chunk; send them once they are enough, or at the end.

    The rows stay in ``waiting`` until the next chunk shows that the put succeeded.
    """
    ext = request.external_req_id
    if rows is not None:
        waiting[ext] = waiting[ext].then(rows) if ext in waiting else rows
    collected = waiting.get(ext)
    if collected is None or len(collected) == 0:
        return None
    if not is_finished and not covers_first_position(len(collected), request, later_segment=later_segment):
        return None
    return prefill_payload(collected, multimodal_output, request, finished=is_finished)


def covers_first_position(rows: int, request: Any, *, later_segment: bool) -> bool:
    """Say whether the rows reach past the prompt to the first generated position (M24b).

    A later segment's prompt contains everything before it, so its rows cannot be counted against it;
    there the second token of the segment shows that the first one's row has been computed.
    """
    if later_segment:
        return len(request.output_token_ids) >= 2
    return rows > len(request.prompt_token_ids)


def prefill_payload(
    rows: HiddenRows, multimodal_output: Mapping[str, Any] | None, request: Any, *, finished: bool
) -> OmniPayloadStruct:
    """Build the payload of a segment's first chunk."""
    special = (multimodal_output or {}).get("embed") or {}
    prompt = list(request.prompt_token_ids)
    texts = request_texts(request)
    return OmniPayloadStruct(
        embed=EmbeddingsStruct(
            prefill=rows.embed,
            tts_bos=special.get("tts_bos"),
            tts_eos=special.get("tts_eos"),
            tts_pad=special.get("tts_pad"),
        ),
        hidden_states=HiddenStatesStruct(output=rows.hidden),
        ids=IdsStruct(all=prompt + list(request.output_token_ids), prompt=prompt),
        meta=MetaStruct(finished=torch.tensor(finished)),
        speaker=texts.get("speaker"),
        language=texts.get("language"),
    )
