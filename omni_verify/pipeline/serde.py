"""Bytes of a payload: vllm-omni's msgpack wire format, so that either end may be the reference (I15).

Tensors, arrays and images travel as maps with a marker key. The format is type-erased: a struct arrives as a
dict, a tuple as a list, and a plain dict that happens to hold a marker would arrive as another type. The last
is refused when it is written instead of being misread later (W32).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import torch

from omni_verify.errors import OmniVerifyError

__all__ = ["RESERVED_KEYS", "OmniSerializer", "PayloadDecodeError", "PayloadEncodeError"]

_TENSOR, _NDARRAY, _IMAGE = "__tensor__", "__ndarray__", "__pil_image__"
RESERVED_KEYS = frozenset({_TENSOR, _NDARRAY, _IMAGE})
"""Map keys that the format itself uses."""

# A receiver rebuilds these maps as request outputs, which are no chunk payloads.
_LOOKALIKES: tuple[frozenset[str], ...] = (
    frozenset({"finished", "final_output_type"}),
    frozenset({"finished", "images"}),
    frozenset({"request_id", "prompt", "prompt_token_ids", "outputs", "finished"}),
    frozenset({"index", "text", "token_ids", "finish_reason"}),
)
_LOOKALIKE_FIRST = frozenset({"finished", "index"})


class PayloadEncodeError(OmniVerifyError, TypeError):
    """A payload cannot be written to the wire without changing its meaning (W32)."""


class PayloadDecodeError(OmniVerifyError, ValueError):
    """Bytes that were consumed do not form a payload; polling the key again cannot help (W8)."""


class OmniSerializer:
    """Serializes payloads; stateless, and its two functions may run in any thread."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        """Encode an object of msgpack types, structs, dataclasses, tensors, arrays, images and slices.

        Tensors are detached and copied to the CPU; a view costs its own bytes, not those of its storage.

        Raises:
            PayloadEncodeError: a type without a wire form, or a map with reserved keys.
        """
        _refuse_reserved(obj)
        try:
            return _ENCODER.encode(obj)
        except PayloadEncodeError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as error:
            raise PayloadEncodeError(f"cannot serialize {type(obj).__name__}: {error}") from error

    @staticmethod
    def deserialize(data: bytes | bytearray | memoryview) -> Any:
        """Decode bytes to dicts, lists, scalars and writable tensors; arrays are read-only views.

        Raises:
            PayloadDecodeError: truncated or foreign bytes, or a marker map whose parts do not fit.
        """
        try:
            return _restore(_DECODER.decode(data))
        except (msgspec.MsgspecError, TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
            raise PayloadDecodeError(
                f"cannot decode {len(data)} payload bytes: {type(error).__name__}: {error}"
            ) from error


def _refuse_reserved(obj: Any) -> None:
    """Walk the containers of a payload before it is encoded; tensors and structs cost nothing here."""
    if isinstance(obj, Mapping):
        keys = obj.keys()
        if not RESERVED_KEYS.isdisjoint(keys):
            raise PayloadEncodeError(
                f"reserved map key {sorted(RESERVED_KEYS & set(keys))!r}: the receiver would read this map "
                "as a tensor, array or image. Rename the key."
            )
        if not _LOOKALIKE_FIRST.isdisjoint(keys):
            for shape in _LOOKALIKES:
                if shape <= keys:
                    raise PayloadEncodeError(
                        f"a map with the keys {sorted(shape)!r} would be read as a request output. "
                        "Nest or rename them."
                    )
        for value in obj.values():
            _refuse_reserved(value)
    elif isinstance(obj, (list, tuple)):
        # Token id lists are long and flat: only a first element that is a container is worth a walk.
        if obj and any(isinstance(item, (Mapping, list, tuple, msgspec.Struct)) for item in obj):
            for value in obj:
                _refuse_reserved(value)
    elif isinstance(obj, msgspec.Struct):
        for name in obj.__struct_fields__:
            value = getattr(obj, name)
            if isinstance(value, (Mapping, list, tuple, msgspec.Struct)):
                _refuse_reserved(value)


def _encode_hook(obj: Any) -> Any:
    if isinstance(obj, torch.Tensor):
        return _encode_tensor(obj)
    if isinstance(obj, np.ndarray) and obj.dtype.kind not in "OV":
        shape = list(obj.shape)
        data = np.ascontiguousarray(obj).tobytes()
        return {_NDARRAY: True, "dtype": obj.dtype.str, "shape": shape, "data": data}
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, slice):
        return (obj.start, obj.stop, obj.step)
    if type(obj).__module__.startswith("PIL."):
        pixels = np.ascontiguousarray(obj, dtype=np.uint8)
        return {_IMAGE: True, "mode": obj.mode, "shape": list(pixels.shape), "data": pixels.tobytes()}
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return dataclasses.asdict(obj)
    raise PayloadEncodeError(
        f"{type(obj).__name__} has no wire form. Expected tensors, arrays, images, structs, dataclasses, "
        "slices or plain msgpack types (dict, list, str, int, float, bool, None, bytes)."
    )


def _encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().data if flat.numel() else b""
    return {
        _TENSOR: True,
        "dtype": _DTYPE_NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "data": data,  # a view, copied once by the encoder
    }


def _restore(obj: Any) -> Any:
    if isinstance(obj, dict):
        if obj.get(_TENSOR):
            return _decode_tensor(obj)
        if obj.get(_NDARRAY):
            return np.frombuffer(obj["data"], dtype=obj["dtype"]).reshape(obj["shape"])
        if obj.get(_IMAGE):
            return _decode_image(obj)
        return {key: _restore(value) if type(value) in _CONTAINERS else value for key, value in obj.items()}
    if isinstance(obj, list):
        return [_restore(value) if type(value) in _CONTAINERS else value for value in obj]
    return obj


def _decode_tensor(wire: dict[str, Any]) -> torch.Tensor:
    dtype, shape, data = getattr(torch, wire["dtype"]), wire["shape"], wire["data"]
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"no tensor dtype {wire['dtype']!r}")
    if not data:
        if 0 not in shape:
            raise ValueError(f"no bytes for a tensor of shape {shape}")
        return torch.empty(shape, dtype=dtype)
    # A bytearray, because a consumer may write into the tensor it received.
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _decode_image(wire: dict[str, Any]) -> Any:
    from PIL import Image

    pixels = np.frombuffer(wire["data"], dtype=np.uint8).reshape(wire["shape"])
    return Image.fromarray(pixels, mode=wire["mode"])


_CONTAINERS = frozenset({dict, list})
_DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
}
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_DECODER = msgspec.msgpack.Decoder()
