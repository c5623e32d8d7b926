"""How tensors, arrays and images look in vllm-omni's msgpack messages."""

from __future__ import annotations

import dataclasses
import mmap
import re
from typing import Any

import msgspec
import numpy as np
import torch

__all__ = ["IMAGE", "NDARRAY", "RESERVED_KEYS", "TENSOR", "Buffer", "decode", "encode_hook"]

Buffer = bytes | bytearray | memoryview | mmap.mmap
"""What may hold the bytes of a message."""

TENSOR, NDARRAY, IMAGE = "__tensor__", "__ndarray__", "__pil_image__"
RESERVED_KEYS = frozenset({TENSOR, NDARRAY, IMAGE})
"""Map keys that mark a tensor, an array or an image."""

_LARGE = 128 * 1024  # bytes; below, a second copy costs less than the walk
_BINARY_HEADER = {0xC4: 2, 0xC5: 3, 0xC6: 5}  # msgpack tag -> bytes before the data
_FIXED_MAP, _FIXED_ARRAY, _LONG_MAPS = 0x8, 0x9, frozenset({0xDE, 0xDF})
_CONTAINERS = frozenset({dict, list})
# Quantized, bit-field and sub-byte types are left out: their values are not their bytes alone.
_DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
    and re.fullmatch(r"torch\.(bool|bfloat16|(u?int|float|complex)(8|16|32|64|128)|float8_\w+)", str(dtype))
}
_DTYPES = {name: dtype for dtype, name in _DTYPE_NAMES.items()}
_decode_plain = msgspec.msgpack.Decoder().decode
_decode_map = msgspec.msgpack.Decoder(dict[Any, msgspec.Raw]).decode
_decode_array = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def encode_hook(obj: Any) -> Any:
    """Return the wire form of an object that msgpack does not know.

    Raises:
        TypeError: it has none.
    """
    if isinstance(obj, torch.Tensor):
        return _encode_tensor(obj)
    if isinstance(obj, np.ndarray) and obj.dtype.kind not in "OV":
        data = np.ascontiguousarray(obj).tobytes()
        return {NDARRAY: True, "dtype": obj.dtype.str, "shape": list(obj.shape), "data": data}
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, slice):
        return (obj.start, obj.stop, obj.step)
    if type(obj).__module__.startswith("PIL."):
        pixels = np.ascontiguousarray(obj, dtype=np.uint8)
        return {IMAGE: True, "mode": obj.mode, "shape": list(pixels.shape), "data": pixels.tobytes()}
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return dataclasses.asdict(obj)
    raise TypeError(
        f"{type(obj).__name__} has no wire form. Expected tensors, arrays, images, structs, dataclasses, "
        "slices or plain msgpack types (dict, list, str, int, float, bool, None, bytes)."
    )


def _encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    try:
        array = tensor.numpy(force=True)  # detached, on the CPU, conjugation resolved
    except TypeError:  # numpy has no dtype for some of torch's, such as bfloat16
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        array = flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
    # A large tensor is handed on as a view, which the encoder copies once.
    data = (
        array.tobytes()
        if array.nbytes < _LARGE
        else np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    )
    return {TENSOR: True, "dtype": _DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape), "data": data}


def decode(view: memoryview) -> Any:
    """Decode one message; what comes out no longer needs its memory.

    Raises:
        Exception: any of several kinds, when the bytes are no message or a marked map does not fit.
    """
    return _own(_decode_large(view))


def _decode_large(view: memoryview) -> Any:
    """Decode level by level while the message is large, so that a tensor is copied once instead of twice.

    Raw values are windows into the message. Only a long binary stays one, and only until it is owned or its
    tensor, array or image is made.
    """
    if len(view) < _LARGE:
        return _restore(_decode_plain(view))
    tag = view[0]
    if tag in _BINARY_HEADER:
        return view[_BINARY_HEADER[tag] :]
    if tag >> 4 == _FIXED_MAP or tag in _LONG_MAPS:
        parts = {key: _decode_large(memoryview(raw)) for key, raw in _decode_map(view).items()}
        if not RESERVED_KEYS.isdisjoint(parts):
            return _restore(parts)
        return {key: _own(part) for key, part in parts.items()}
    if tag >> 4 == _FIXED_ARRAY:  # longer ones are number lists, which the plain decoder handles best
        return [_own(_decode_large(memoryview(raw))) for raw in _decode_array(view)]
    return _restore(_decode_plain(view))


def _own(part: Any) -> Any:
    """Turn a window into the message into bytes that outlive it."""
    return bytes(part) if isinstance(part, memoryview) else part


def _restore(obj: Any) -> Any:
    """Replace every marked map by what it stands for."""
    if isinstance(obj, dict):
        if not RESERVED_KEYS.isdisjoint(obj):
            if obj.get(TENSOR):
                return _decode_tensor(obj)
            if obj.get(NDARRAY):
                return np.frombuffer(bytes(obj["data"]), dtype=obj["dtype"]).reshape(obj["shape"])
            if obj.get(IMAGE):
                return _decode_image(obj)
        return {key: _restore(value) if type(value) in _CONTAINERS else value for key, value in obj.items()}
    if isinstance(obj, list):
        return [_restore(value) if type(value) in _CONTAINERS else value for value in obj]
    return obj


def _decode_tensor(wire: dict[str, Any]) -> torch.Tensor:
    dtype, shape, data = _DTYPES[wire["dtype"]], wire["shape"], wire["data"]
    if not data:
        if 0 not in shape:
            raise ValueError(f"no bytes for a tensor of shape {shape}")
        return torch.empty(shape, dtype=dtype)
    # A bytearray, because a consumer may write into the tensor it received.
    flat = torch.frombuffer(bytearray(data), dtype=dtype)
    return flat if shape == [len(data) // dtype.itemsize] else flat.reshape(shape)


def _decode_image(wire: dict[str, Any]) -> Any:
    from PIL import Image

    pixels = np.frombuffer(bytes(wire["data"]), dtype=np.uint8).reshape(wire["shape"])
    return Image.fromarray(pixels, mode=wire["mode"])
