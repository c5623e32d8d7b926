"""The payload that crosses a stage edge: structs on the sending side, dicts on the receiving side (I15).

Tensors are recognised by shape and dtype attributes rather than by class, so that the contracts load without
torch. Field names and types follow vllm-omni 0.30.0 plus its newer ``meta.first_audio``; ``meta.error`` is
ours: it lets a sender end a stream with a reason instead of leaving a hole (I36, W7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

__all__ = [
    "CodesStruct",
    "EmbeddingsStruct",
    "HiddenStatesStruct",
    "IdsStruct",
    "MetaStruct",
    "OmniPayloadStruct",
    "flatten_payload",
    "is_tensor",
    "is_truthy_scalar",
    "to_dict",
    "to_struct",
    "unflatten_payload",
    "validate_payload",
]


def is_tensor(value: object) -> bool:
    """Tell whether a value is a tensor, without importing torch."""
    return hasattr(value, "numel") and hasattr(value, "dtype") and hasattr(value, "shape")


class _TensorType(type):
    """Makes ``isinstance(x, Tensor)`` the duck test; msgspec checks the type of a converted field with it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return is_tensor(instance)


if TYPE_CHECKING:
    Tensor = Any
else:

    class Tensor(metaclass=_TensorType):
        """Annotation of tensor fields."""


class _Struct(msgspec.Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the payload structs: every field is optional and None means absent."""


class HiddenStatesStruct(_Struct):
    """Hidden states of the producing model; ``layers`` maps a layer number to its tensor."""

    output: Tensor | None = None
    output_shape: list[int] | None = None
    trailing_text: Tensor | None = None
    last: Tensor | None = None
    layers: dict[int, Tensor] | None = None


class EmbeddingsStruct(_Struct):
    """Embeddings of prompt and decode steps, of the special tokens and of the voice."""

    prefill: Tensor | None = None
    prefill_shape: list[int] | None = None
    decode: Tensor | None = None
    decode_token_start: int | None = None
    decode_token_end: int | None = None
    cached_decode: Tensor | None = None
    cached_decode_token_start: int | None = None
    cached_decode_token_end: int | None = None
    tts_bos: Tensor | None = None
    tts_eos: Tensor | None = None
    tts_pad: Tensor | None = None
    tts_pad_projected: Tensor | None = None
    voice: Tensor | None = None
    speech_feat: Tensor | None = None
    speech_token: Tensor | None = None
    speech_token_len: Tensor | None = None
    embedding: Tensor | None = None
    thinker_reply: Tensor | None = None


class IdsStruct(_Struct):
    """Token id sequences."""

    all: list[int] | None = None
    prompt: list[int] | None = None
    output: list[int] | None = None
    speech_token: list[int] | None = None
    prior_image: list[int] | None = None
    streaming_prompt_previous_codes: list[int] | None = None


class CodesStruct(_Struct):
    """Codec codes: ``audio`` is 1-D int64 of length Q*T, codebook-major (I12)."""

    audio: Tensor | None = None
    ref: Tensor | None = None


class MetaStruct(_Struct):
    """Model protocol of one chunk; transport metadata never appears here (I16).

    ``finished`` and ``is_segment_finished`` are 0-d bool tensors; sizes count frames or tokens.
    """

    finished: Tensor | None = None
    is_segment_finished: Tensor | None = None
    stream_finished: Tensor | None = None
    request_id: str | None = None
    chunk_seq: int | None = None
    cache_epoch: int | None = None
    last_chunk: bool | None = None
    first_audio: bool | None = None
    error: str | None = None
    req_id: list[str] | None = None
    left_context_size: int | None = None
    right_holdback_size: int | None = None
    override_keys: list[tuple[str, str]] | None = None
    num_processed_tokens: int | None = None
    next_stage_prompt_len: int | None = None
    next_stage_generation_tokens: int | None = None
    next_stage_prompt_ids: list[int] | None = None
    replace_streaming_prompt: bool | None = None
    replace_runtime_additional_information: bool | None = None
    streaming_prompt_recompute: bool | None = None
    streaming_condition_seq: int | None = None
    ar_width: int | None = None
    eol_token_id: int | None = None
    visual_token_start_id: int | None = None
    visual_token_end_id: int | None = None
    gen_token_mask: Tensor | None = None
    omni_task: list[str] | None = None
    height: int | None = None
    width: int | None = None
    decode_flag: bool | None = None
    codec_streaming: bool | None = None
    codec_frame_valid: Tensor | None = None
    codec_chunk_frames: int | None = None
    codec_left_context_frames: int | None = None
    code_flat_numel: int | None = None
    expected_total_tokens: int | None = None
    ref_code_len: int | None = None
    ref_context_size: int | None = None
    ref_context_request_id: str | None = None
    ref_context_included: bool | None = None
    talker_prefill_offset: int | None = None
    omni_final_stage_id: int | None = None
    audio_seed: int | None = None
    token_role_ids: Tensor | None = None


class OmniPayloadStruct(_Struct):
    """One chunk as the sending side sees it."""

    hidden: Tensor | None = None
    hidden_states: HiddenStatesStruct | None = None
    embed: EmbeddingsStruct | None = None
    ids: IdsStruct | None = None
    codes: CodesStruct | None = None
    meta: MetaStruct | None = None
    latent: Tensor | None = None
    generated_len: int | None = None
    model_outputs: list[Tensor] | None = None
    mtp_inputs: tuple[Tensor, Tensor] | None = None
    speaker: list[str] | str | None = None
    language: list[str] | str | None = None
    request_id: str | None = None
    past_key_values: list[int] | None = None
    kv_metadata: dict[str, Any] | None = None


_NESTED = frozenset({"hidden_states", "embed", "ids", "codes", "meta"})
_LAYER = "layer_"


def _accept_tensor(kind: type, value: Any) -> Any:
    if kind is Tensor and is_tensor(value):
        return value
    raise TypeError(f"expected a tensor, got {type(value).__name__}")


def to_struct(payload: Mapping[str, Any]) -> OmniPayloadStruct:
    """Convert a payload dict to the struct.

    Raises:
        msgspec.ValidationError: an unknown key at either level, or a value of the wrong type; a bool is
            not an int, and a numeric string is not a number.
    """
    return msgspec.convert(payload, OmniPayloadStruct, dec_hook=_accept_tensor)


def validate_payload(payload: Mapping[str, Any] | None, *, context: str = "payload") -> None:
    """Check a payload dict against the schema; None passes.

    Raises:
        msgspec.ValidationError: as :func:`to_struct`, with ``context`` in front of the message.
    """
    if payload is None:
        return
    try:
        to_struct(payload)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{context}: {error}") from error


def to_dict(struct: OmniPayloadStruct) -> dict[str, Any]:
    """Convert the struct to the dict that a receiver would see, without the absent fields."""
    return {
        name: _present_fields(value) if isinstance(value, _Struct) else value
        for name, value in _present_fields(struct).items()
        if not isinstance(value, _Struct) or _present_fields(value)
    }


def _present_fields(struct: _Struct) -> dict[str, Any]:
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return {name: value for name, value in values if value is not None}


def flatten_payload(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """Expand the five nested categories to ``category.field`` keys (I17).

    ``hidden_states.layers[n]`` becomes ``hidden_states.layer_n``; every other value stays under its key.
    """
    flat: dict[str, Any] = {}
    for key, value in (payload or {}).items():
        if key not in _NESTED or not isinstance(value, dict):
            flat[key] = value
            continue
        for field, inner in value.items():
            if key == "hidden_states" and field == "layers" and isinstance(inner, dict):
                flat.update({f"{key}.{_LAYER}{number}": tensor for number, tensor in inner.items()})
            else:
                flat[f"{key}.{field}"] = inner
    return flat


def unflatten_payload(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Rebuild the nested dict; the inverse of :func:`flatten_payload` on schema keys (I17).

    Every key with a dot is split at its first dot, unknown categories too; layer numbers become ints.
    """
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        category, dot, field = key.partition(".")
        if not dot:
            nested[key] = value
            continue
        fields = nested.setdefault(category, {})
        if category == "hidden_states" and field.startswith(_LAYER):
            fields.setdefault("layers", {})[int(field[len(_LAYER) :])] = value
        else:
            fields[field] = value
    return nested


def is_truthy_scalar(value: Any) -> bool:
    """Read a flag that may be a 0-d bool tensor, a bool or None (I17b).

    A tensor counts only when it has exactly one element; None is False.
    """
    if is_tensor(value):
        return bool(value.numel() == 1 and value.item())
    return bool(value)
