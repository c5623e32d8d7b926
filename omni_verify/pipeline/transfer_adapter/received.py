"""What a received chunk must look like, and what it does to a request (pure functions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from omni_verify.contracts.payload_schema import is_truthy_scalar

__all__ = ["CodesUpdate", "codes_update", "error_text", "flag", "payload_fault"]


def flag(payload: dict[str, Any], name: str) -> bool:
    """Read ``meta.<name>`` as a flag (I17b)."""
    return is_truthy_scalar((payload.get("meta") or {}).get(name))


def error_text(payload: Any) -> str | None:
    """Return the reason in an error terminal, or None for an ordinary chunk."""
    meta = payload.get("meta") if isinstance(payload, dict) else None
    error = meta.get("error") if isinstance(meta, dict) else None
    return None if error is None else str(error)


def payload_fault(payload: Any, *, codes_required: bool) -> str | None:
    """Say what is wrong with the shape of a received payload, or None (W8, I15).

    The chunk has been consumed, so polling again cannot repair it; skipping its number would hide a loss.

    Args:
        payload: the decoded object; a map with at least one key is expected.
        codes_required: the receiver is a generation stage: a chunk that ends nothing must carry
            ``codes.audio``, an integer tensor of at least one dimension or a list of ints. It may be empty:
            "nothing yet".
    """
    if not isinstance(payload, dict):
        return f"expected a map, got {type(payload).__name__}"
    if not payload:
        return "expected a payload, got an empty map"
    if not isinstance(payload.get("meta", {}), dict | None):
        return f"expected meta to be a map, got {type(payload['meta']).__name__}"
    if not codes_required:
        return None
    codes = payload.get("codes")
    if not isinstance(codes, dict | None):
        return f"expected codes to be a map, got {type(codes).__name__}"
    audio = (codes or {}).get("audio")
    if audio is None:
        ends = flag(payload, "finished") or flag(payload, "is_segment_finished")
        return None if ends else "expected codes.audio in a chunk that ends nothing, got none"
    return _codes_fault(audio)


def _codes_fault(audio: Any) -> str | None:
    if isinstance(audio, torch.Tensor):
        if (
            audio.ndim == 0
            or audio.dtype.is_floating_point
            or audio.dtype.is_complex
            or audio.dtype == torch.bool
        ):
            return f"expected codes.audio of integers, got {audio.dtype} of shape {tuple(audio.shape)}"
        return None
    if not isinstance(audio, list):
        return f"expected codes.audio to be a tensor or a list, got {type(audio).__name__}"
    if not all(isinstance(code, int) and not isinstance(code, bool) for code in audio):
        return "expected codes.audio of integers, got other items"
    return None


@dataclass(frozen=True)
class CodesUpdate:
    """What one chunk puts into a generation-stage request.

    Attributes:
        prompt_token_ids: the codes, int; ``[0]`` stands for a tensor of two or more dimensions and for an
            empty boundary; empty for a terminal without codes.
        information: the request's new ``additional_information``.
        has_codes: the chunk carried at least one code.
    """

    prompt_token_ids: list[int]
    information: dict[str, Any]
    has_codes: bool


def codes_update(payload: dict[str, Any], previous: Any) -> CodesUpdate:
    """Compute the update of a generation-stage request from a well-formed payload.

    A chunk is merged into what the request already has, one level deep; ``meta.finished`` is transport news,
    not model input. A chunk with codes but without ``left_context_size`` therefore inherits the previous
    value (I11).
    """
    audio = (payload.get("codes") or {}).get("audio")
    as_tensor = isinstance(audio, torch.Tensor) and audio.ndim >= 2
    if isinstance(audio, torch.Tensor):
        has_codes = audio.numel() > 0
        prompt = ([0] if has_codes else []) if as_tensor else audio.tolist()
    else:
        prompt = list(audio or [])
        has_codes = bool(prompt)
    if not has_codes and flag(payload, "is_segment_finished"):
        prompt = [0]
    replace = (payload.get("meta") or {}).get("replace_runtime_additional_information") is True
    information: dict[str, Any] = {} if replace or not isinstance(previous, dict) else dict(previous)
    for category, value in payload.items():
        if not isinstance(value, dict):
            information[category] = value
            continue
        merged = dict(information[category]) if isinstance(information.get(category), dict) else {}
        merged.update(
            (name, item)
            for name, item in value.items()
            if (category, name) != ("meta", "finished")
            and ((category, name) != ("codes", "audio") or as_tensor)
        )
        if merged or category != "codes":
            information[category] = merged
    return CodesUpdate(prompt, information, has_codes)
