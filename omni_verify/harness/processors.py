"""Producer-side processors of the harness: the same for every target.

They have vllm-omni's signature ``(transfer_manager, multimodal_output, request, is_finished=False)``
and run on the target's save thread. Chunking itself is judged by the pipeline's own properties, so
these keep it trivial: one chunk for each save, or one for every `size` frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omni_verify.harness import dye
from omni_verify.targets.protocol import Target

__all__ = ["accumulating", "per_save"]


def _rows(multimodal_output: Any) -> list[list[int]]:
    codes = ((multimodal_output or {}).get("codes") or {}).get("audio")
    return [] if codes is None else codes.tolist()


def _payload(target: Target, rows: list[list[int]]) -> Any:
    import torch

    codes = torch.tensor(dye.flatten(rows), dtype=torch.int64)
    return target.payload(codes=codes, left_context_size=0)


def per_save(target: Target) -> Callable[..., Any]:
    """Send the frames of one save as one chunk; a save without frames sends none."""

    def processor(
        transfer_manager: Any, multimodal_output: Any, request: Any, is_finished: Any = False
    ) -> Any:
        rows = _rows(multimodal_output)
        return _payload(target, rows) if rows else None

    return processor


def accumulating(target: Target, size: int) -> Callable[..., Any]:
    """Hold frames back until `size` of them are there, or until the flush at the end.

    The held rows live in the adapter's own `code_prompt_token_ids`, keyed by external id, as the
    real processors keep them: so the adapter has to reclaim them (I39).
    """

    def processor(
        transfer_manager: Any, multimodal_output: Any, request: Any, is_finished: Any = False
    ) -> Any:
        held = transfer_manager.code_prompt_token_ids[request.external_req_id]
        held.extend(_rows(multimodal_output))
        if not held or (len(held) < size and not is_finished):
            return None
        rows = list(held)
        held.clear()
        return _payload(target, rows)

    return processor
