"""Code2Wav to forced aligner: the complete waveform and its text, once, after the end (article section 4.1).

Runs in the orchestrator, not on a connector edge. Alignment of a part would put all words of a sentence
into its last chunk (vllm-omni#7544).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from omni_verify.pipeline.processors.word_times import decode_word_times
from omni_verify.pipeline.processors.words import aligner_prompt, segment_words

__all__ = ["code2wav2aligner", "decode_pooling_output", "waveform_of"]

logger = logging.getLogger(__name__)
DEFAULT_SAMPLE_RATE = 24_000


def code2wav2aligner(
    source_outputs: Sequence[Any],
    prompt: Any = None,
    requires_multimodal_data: bool = False,  # noqa: FBT001 - the public signature
) -> list[dict[str, Any]]:
    """Return one aligner prompt for every finished source output with audio (I10, I49).

    Args:
        source_outputs: outputs with ``finished`` and ``multimodal_output`` (own or of ``outputs[0]``):
            ``audio`` a float tensor or a list of them, ``sr`` in hertz.
        prompt: mapping whose ``additional_information`` has ``text`` (str or list) and ``language``.
        requires_multimodal_data: unused, part of the orchestrator's call.

    Returns:
        Prompts with ``prompt``, ``multi_modal_data["audio"] = (waveform[samples], rate)`` and
        ``additional_information`` (``text``, ``aligner_words``, ``aligner_audio_duration_ms``, ``language``).
    """
    info = (prompt.get("additional_information") if isinstance(prompt, Mapping) else None) or {}
    inputs = []
    for index, output in enumerate(source_outputs):
        if not output.finished:
            continue
        waveform, rate = waveform_of(multimodal_of(output))
        if waveform.numel() == 0:
            logger.warning("no audio to align for request %s", getattr(output, "request_id", index))
            continue
        text, language = item_of(info.get("text"), index) or "", item_of(info.get("language"), index)
        words = segment_words(text, language)
        inputs.append(
            {
                "prompt": aligner_prompt(words),
                "multi_modal_data": {"audio": (waveform, rate)},
                "additional_information": {
                    "text": [text],
                    "aligner_words": [words],
                    "aligner_audio_duration_ms": [waveform.numel() / rate * 1000.0],
                    "language": language,
                },
            }
        )
    return inputs


def multimodal_of(output: Any) -> Mapping[str, Any]:
    """Return the multimodal data of a stage output or of a request output with completions."""
    completions = getattr(output, "outputs", None)
    return (completions[0] if completions else output).multimodal_output or {}


def waveform_of(multimodal_output: Mapping[str, Any]) -> tuple[torch.Tensor, int]:
    """Return the mono float32 waveform ``[samples]`` and its rate; a list is joined, not cut (W23)."""
    audio = multimodal_output.get("audio")
    if audio is None:
        audio = multimodal_output.get("model_outputs")
    pieces = audio if isinstance(audio, list | tuple) else ([] if audio is None else [audio])
    flat = [torch.as_tensor(piece).detach().cpu().to(torch.float32).reshape(-1) for piece in pieces]
    return (torch.cat(flat) if flat else torch.zeros(0)), sample_rate_of(multimodal_output.get("sr"))


def sample_rate_of(value: Any) -> int:
    """Return a rate that is a number, a list or a tensor (the last entry counts), or missing."""
    if isinstance(value, torch.Tensor):
        value = value.reshape(-1).tolist()
    if isinstance(value, list | tuple):
        value = value[-1] if value else None
    if isinstance(value, torch.Tensor):
        return sample_rate_of(value)
    return DEFAULT_SAMPLE_RATE if value is None else int(value)


def item_of(value: Any, index: int) -> Any:
    """Return entry ``index`` of a list, or the value itself."""
    if isinstance(value, list | tuple):
        return value[index] if index < len(value) else None
    return value


def decode_pooling_output(logits: torch.Tensor, request: Any) -> torch.Tensor:
    """Turn the aligner's logits into word times, int32 ``[words, 2]`` in milliseconds.

    Args:
        logits: ``[timestamp markers, bins]``: two markers a word, in order.
        request: with the ``additional_information`` that :func:`code2wav2aligner` made.

    Returns:
        The times; ``[0, 2]`` where the counts do not match, which a client sees as null.
    """
    info = request.additional_information
    words, duration = info["aligner_words"][0], float(info["aligner_audio_duration_ms"][0])
    segment_ms = info.get("aligner_segment_ms")
    return decode_word_times(logits, len(words), duration, segment_ms)
