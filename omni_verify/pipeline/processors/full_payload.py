"""The same edges without chunks: one payload per request, sent when the producer has finished.

The full payload carries what the chunks together would have carried, so that both modes speak the same
frames for the same seed. It is a plain dict with the key ``{ext}_{stage}_0``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from omni_verify.contracts.payload_schema import to_dict
from omni_verify.pipeline.processors.hidden_rows import HiddenRows, hidden_rows
from omni_verify.pipeline.processors.layout import flatten_codebook_major
from omni_verify.pipeline.processors.prompts import talker_prompt_len
from omni_verify.pipeline.processors.talker2code2wav import codec_rows
from omni_verify.pipeline.processors.thinker2talker import prefill_payload

__all__ = [
    "CODEBOOK_SIZE",
    "codec_frames_of_tokens",
    "talker2code2wav_full_payload",
    "thinker2talker_full_payload",
    "thinker2talker_token_only",
]

CODEBOOK_SIZE = 2048


def thinker2talker_full_payload(
    transfer_manager: Any,
    multimodal_output: Mapping[str, Any] | None,
    request: Any,
    is_finished: bool = True,  # noqa: FBT001 - the public signature
) -> dict[str, Any] | None:
    """Return the conditions of all positions: the fields of the first chunk, finished.

    The row of the last token is left out where the engine computed one: it belongs to the stop token,
    which is not spoken and has no row in chunk mode either.

    Args:
        transfer_manager: gives the accepted layer.
        multimodal_output: everything the Thinker produced for the request.
        request: with ``prompt_token_ids`` and ``output_token_ids``.
        is_finished: always true here; the parameter keeps the processors' signature.

    Returns:
        The payload, or None where tokens exist and rows do not (the consumer's deadline then decides).
    """
    rows = hidden_rows(transfer_manager, multimodal_output)
    if rows is None or len(rows) == 0:
        return None
    tokens = len(request.prompt_token_ids) + len(request.output_token_ids)
    if len(rows) > 1 and len(rows) >= tokens:
        rows = HiddenRows(rows.embed[: tokens - 1], rows.hidden[: tokens - 1])
    return to_dict(prefill_payload(rows, multimodal_output, request, finished=True))


def thinker2talker_token_only(
    source_outputs: Sequence[Any],
    prompt: Any = None,
    requires_multimodal_data: bool = False,  # noqa: FBT001 - the public signature
) -> list[dict[str, Any]]:
    """Return the Talker's placeholder prompts; the conditions themselves come through the connector.

    Args:
        source_outputs: Thinker outputs with ``prompt_token_ids``.
        prompt: the client's prompt, a mapping with ``additional_information``, or None.
        requires_multimodal_data: unused, part of the orchestrator's call.
    """
    info = prompt.get("additional_information") if isinstance(prompt, Mapping) else None
    carried = {key: info[key] for key in ("speaker", "language") if info and info.get(key) is not None}
    return [
        {
            "prompt_token_ids": [0] * max(1, talker_prompt_len(output.prompt_token_ids)),
            "additional_information": dict(carried),
        }
        for output in source_outputs
    ]


def talker2code2wav_full_payload(
    transfer_manager: Any,
    multimodal_output: Mapping[str, Any] | None,
    request: Any,
    is_finished: bool = True,  # noqa: FBT001 - the public signature
) -> dict[str, Any]:
    """Return all frames of the utterance: ``codes.audio`` as a list, codebook-major.

    With no frame left the list is empty and the payload still says finished, because a consumer that
    gets nothing waits for its deadline (I14).

    Args:
        transfer_manager: unused, part of the processors' signature.
        multimodal_output: every ``codes.audio`` row of the request, int64 ``[n, Q]``.
        request: with ``output_token_ids``.
        is_finished: always true here.
    """
    frames = codec_frames_of_tokens(codec_rows(multimodal_output), list(request.output_token_ids))
    return {
        "codes": {"audio": flatten_codebook_major(frames).tolist()},
        "meta": {"left_context_size": 0, "finished": torch.tensor(True)},
    }


def codec_frames_of_tokens(rows: torch.Tensor, output_token_ids: Sequence[int]) -> torch.Tensor:
    """Align the last rows with the last tokens and keep the frames: token and codes inside the codebook."""
    n = min(len(rows), len(output_token_ids))
    rows, tokens = rows[len(rows) - n :], list(output_token_ids)[len(output_token_ids) - n :]
    inside = [0 <= token < CODEBOOK_SIZE for token in tokens]
    kept = [row for row, ok in zip(rows, inside, strict=True) if ok and in_codebook(row)]
    return torch.stack(kept) if kept else rows.new_zeros((0, rows.shape[-1]))


def in_codebook(row: torch.Tensor) -> bool:
    """Say whether every code of a frame exists."""
    return bool(((row >= 0) & (row < CODEBOOK_SIZE)).all())
