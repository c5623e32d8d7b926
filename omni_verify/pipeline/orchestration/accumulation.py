"""Accumulate one request's outputs at one stage as its output kind asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from omni_verify.pipeline.orchestration.messages import CompletionOutput, RequestOutput
from omni_verify.pipeline.stages.messages import StageOutput
from omni_verify.pipeline.stages.params import RequestOutputKind

__all__ = ["AUDIO_KEYS", "OutputAccumulator", "append_multimodal", "consolidate_audio", "latest_sample_rate"]

AUDIO_KEYS = ("audio", "model_outputs")
Detokenize = Callable[[Sequence[int]], str]


def append_multimodal(accumulated: dict[str, Any], new: dict[str, Any]) -> None:
    """Merge new data: audio pieces form a list in arrival order, every other key keeps the latest value."""
    for key, value in new.items():
        if key in AUDIO_KEYS:
            accumulated.setdefault(key, []).extend(value if isinstance(value, list) else [value])
        else:
            accumulated[key] = value


def consolidate_audio(pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate audio pieces ``[..., samples]`` along the last axis; no piece gives an empty waveform."""
    kept = [piece for piece in pieces if piece.numel()]
    if not kept:
        return torch.zeros(0, dtype=torch.float32)
    return kept[0] if len(kept) == 1 else torch.cat(kept, dim=-1)


def latest_sample_rate(value: Any) -> int | None:
    """Read a sample rate given as a number, a tensor or a list, of which the last entry counts."""
    if value is None:
        return None
    if isinstance(value, list):
        return latest_sample_rate(value[-1]) if value else None
    if isinstance(value, torch.Tensor):
        return int(value.reshape(-1)[-1].item()) if value.numel() else None
    return int(value)


@dataclass(slots=True)
class OutputAccumulator:
    """Hold what one stage produced for one request, and say what to emit at each step.

    DELTA emits and forgets; CUMULATIVE emits everything so far at each step and keeps it;
    FINAL_ONLY emits everything once, at the end. Intermediate stages use it too, because a stage
    behind them may need the complete result (I10).
    """

    kind: RequestOutputKind
    detokenize: Detokenize | None = None
    token_ids: list[int] = field(default_factory=list)
    multimodal: dict[str, Any] = field(default_factory=dict)
    _emitted_text: int = 0

    def add(self, raw: StageOutput) -> RequestOutput | None:
        """Take one raw output; return what to emit now, or None when there is nothing to say yet."""
        self.token_ids.extend(raw.token_ids)
        if raw.multimodal_output:
            append_multimodal(self.multimodal, raw.multimodal_output)
        if self.kind is RequestOutputKind.FINAL_ONLY and not raw.finished:
            return None
        completion = self._completion(raw)
        if not (raw.finished or raw.token_ids or raw.multimodal_output or completion.text):
            return None
        return RequestOutput(raw.request_id, raw.stage_id, [completion], raw.finished)

    def _completion(self, raw: StageOutput) -> CompletionOutput:
        text = self.detokenize(self.token_ids) if self.detokenize else ""
        tokens = list(self.token_ids)
        if self.kind is RequestOutputKind.DELTA:
            # An unfinished multi-byte character may still change, so it waits for the next token.
            stable = text if raw.finished else text.rstrip("\ufffd")
            text, tokens = stable[self._emitted_text :], list(raw.token_ids)
            self._emitted_text = max(self._emitted_text, len(stable))
        return CompletionOutput(
            text=text,
            token_ids=tokens,
            multimodal_output=self._emit_multimodal(),
            finish_reason=raw.finish_reason,
        )

    def _emit_multimodal(self) -> dict[str, Any]:
        emitted: dict[str, Any] = {}
        for key, value in self.multimodal.items():
            if key in AUDIO_KEYS:
                emitted[key] = self._audio_view(value)
            else:
                emitted[key] = value
        if self.kind is RequestOutputKind.DELTA:
            drain_delta(self.multimodal)
        return emitted

    def _audio_view(self, pieces: list[torch.Tensor]) -> torch.Tensor | list[torch.Tensor]:
        if self.kind is RequestOutputKind.DELTA:
            return pieces[0] if len(pieces) == 1 else list(pieces)
        return consolidate_audio(pieces)


def drain_delta(multimodal: dict[str, Any]) -> None:
    """Forget what a DELTA emission has handed out: audio and the metadata of its chunk.

    The sample rate stays, since a later chunk may come without it.
    """
    rate = multimodal.get("sr")
    multimodal.clear()
    if rate is not None:
        multimodal["sr"] = rate
