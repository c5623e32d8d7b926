"""How tensors, arrays and images look in vllm-omni's msgpack messages.

A large tensor is copied as seldom as possible. The sender gives it to the file system as it lies in memory,
as one of the pieces of a message; the receiver reads the message into memory in which the tensor is aligned,
and leaves it there.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

__all__ = [
    "IMAGE",
    "NDARRAY",
    "RESERVED_KEYS",
    "TENSOR",
    "Buffer",
    "Encoded",
    "Received",
    "decode",
    "encode",
    "landing",
]


class Received(np.ndarray):
    """A message in memory that belongs to whoever decodes it: a tensor may keep it (uint8, one dimension)."""

    def __bool__(self) -> bool:
        return self.size > 0


Buffer = bytes | bytearray | memoryview | Received
"""What may hold the bytes of a message."""

TENSOR, NDARRAY, IMAGE = "__tensor__", "__ndarray__", "__pil_image__"
RESERVED_KEYS = frozenset({TENSOR, NDARRAY, IMAGE})
"""Map keys that mark a tensor, an array or an image."""

_LARGE = 128 * 1024  # bytes; below, a second copy costs less than the care
_APART_FROM = 1024  # bytes of a tensor; below, looking through them costs less than leaving them out
_LONGEST_BINARY = 0xFFFFFFFF
_BINARY_HEADER = {0xC4: 2, 0xC5: 3, 0xC6: 5}  # msgpack tag -> bytes before the data
_BINARY_FORMS = {0xC4: ">BB", 0xC5: ">BH", 0xC6: ">BI"}
_LARGE_DATA = re.compile(rb"\xa4data\xc6[\0-\xff]{4}")
_STAND_IN = os.urandom(16)  # of a tensor, until its bytes take its place
_ALIGNMENT = 64
# AMD cores copy about six times slower to an address that lies 1 to 32 bytes ahead of the source in its page.
_PAGE, _SLOW_LEAD = 4096, 32
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
_NUMPY_DTYPES = {
    name: np.dtype(name)
    for name in _DTYPES
    if name in np.sctypeDict and torch.from_numpy(np.empty(0, name)).dtype == _DTYPES[name]
}
_decode_plain = msgspec.msgpack.Decoder().decode
_decode_map = msgspec.msgpack.Decoder(dict[Any, msgspec.Raw]).decode
_decode_array = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Encoded(NamedTuple):
    """One message.

    Attributes:
        pieces: their bytes in a row are the message; a large tensor is one of them.
        text: the message without the bytes of its longer tensors, to be looked through for map keys.
        marked: number of marked maps that the encoder made.
    """

    pieces: list[bytes | memoryview]
    text: bytes
    marked: int


def encode(obj: Any) -> Encoded:
    """Encode one message.

    Raises:
        Exception: any of several kinds, when a value has no wire form.
    """
    marked: list[bytes | memoryview | None] = []  # the bytes of a tensor that is kept apart, else None
    text = msgspec.msgpack.encode(obj, enc_hook=functools.partial(_encode_hook, marked))
    apart = [data for data in marked if data is not None]
    if not apart:
        return Encoded([text], text, len(marked))
    pieces = _split(text, apart)
    if sum(map(len, pieces)) < _LARGE:
        pieces = [b"".join(pieces)]
    return Encoded(pieces, text, len(marked))


def _split(text: bytes, apart: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Put the tensors that were kept apart where their stand-ins are."""
    first, *others = text.split(_STAND_IN)
    if len(others) != len(apart):
        raise ValueError("the payload contains the random bytes that stand for a tensor")
    pieces: list[bytes | memoryview] = [first]
    offset = len(first)
    for data, following in zip(apart, others, strict=True):
        if isinstance(data, memoryview) and _is_slow(offset, _address(data)):
            data = _moved(data)
        pieces += [data, following]
        offset += len(data) + len(following)
    return pieces


def _encode_hook(marked: list[bytes | memoryview | None], obj: Any) -> Any:
    """Return the wire form of an object that msgpack does not know, and count it if it is a marked map.

    Raises:
        TypeError: it has none.
    """
    if isinstance(obj, torch.Tensor):
        return _encode_tensor(obj, marked)
    if isinstance(obj, np.ndarray) and obj.dtype.kind not in "OV":
        data = np.ascontiguousarray(obj).tobytes()
        marked.append(None)
        return {NDARRAY: True, "dtype": obj.dtype.str, "shape": list(obj.shape), "data": data}
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, slice):
        return (obj.start, obj.stop, obj.step)
    if type(obj).__module__.startswith("PIL."):
        pixels = np.ascontiguousarray(obj, dtype=np.uint8)
        marked.append(None)
        return {IMAGE: True, "mode": obj.mode, "shape": list(pixels.shape), "data": pixels.tobytes()}
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return dataclasses.asdict(obj)
    raise TypeError(
        f"{type(obj).__name__} has no wire form. Expected tensors, arrays, images, structs, dataclasses, "
        "slices or plain msgpack types (dict, list, str, int, float, bool, None, bytes)."
    )


def _encode_tensor(tensor: torch.Tensor, marked: list[bytes | memoryview | None]) -> msgspec.Raw:
    try:
        array = tensor.numpy(force=True)  # detached, on the CPU, conjugation resolved
        shape = array.shape
    except TypeError:  # numpy has no dtype for some of torch's, such as bfloat16
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        array = flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
        shape = tuple(tensor.shape)
    size = array.nbytes
    head = _tensor_head(tensor.dtype, shape, size)
    if size < _LARGE:
        data: bytes | memoryview = array.tobytes()
        if size < _APART_FROM:
            marked.append(None)
            return msgspec.Raw(head + data)
    else:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    marked.append(data)
    return msgspec.Raw(head + _STAND_IN)


@functools.lru_cache(maxsize=1024)
def _tensor_head(dtype: torch.dtype, shape: tuple[int, ...], size: int) -> bytes:
    """Return what stands before the bytes of a tensor: the marked map up to the header of its last value.

    Raises:
        ValueError: more bytes than a msgpack binary can have.
    """
    if size > _LONGEST_BINARY:
        raise ValueError(f"a tensor of {size} bytes is longer than a msgpack binary")
    wire = msgspec.msgpack.encode({TENSOR: True, "dtype": _DTYPE_NAMES[dtype], "shape": shape, "data": b""})
    tag = 0xC4 if size < 1 << 8 else 0xC5 if size < 1 << 16 else 0xC6
    return wire[:-2] + struct.pack(_BINARY_FORMS[tag], tag, size)


def _is_slow(destination: int, source: int) -> bool:
    """Tell whether copying between these addresses is slow, as seen from their places in a page."""
    return 0 < (destination - source) % _PAGE <= _SLOW_LEAD


def _moved(view: memoryview) -> memoryview:
    """Copy to an address that lies elsewhere in its page; the library's copying knows the slow case."""
    memory = np.empty(view.nbytes + _ALIGNMENT, np.uint8)
    start = _ALIGNMENT if _address(memory) % _PAGE == _address(view) % _PAGE else 0
    memory[start : start + view.nbytes] = view
    return memory[start : start + view.nbytes].data


def landing(head: bytes, size: int) -> Received:
    """Return memory for a message of ``size`` bytes, placed so that its first large tensor is aligned.

    Args:
        head: the first bytes of the message. What they seem to say is a guess: a tensor that turns out not to
            be aligned is copied once more.
        size: of the whole message in bytes.
    """
    found = _LARGE_DATA.search(head)
    memory = np.empty(size + 2 * _ALIGNMENT, np.uint8)
    start = -(_address(memory) + (found.end() if found else 0)) % _ALIGNMENT
    if _is_slow(_address(memory) + start, 0):
        start += _ALIGNMENT
    return memory[start : start + size].view(Received)


def _address(memory: Any) -> int:
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])


def decode(data: Buffer) -> Any:
    """Decode one message; what comes out no longer needs its memory, unless that was ``Received``.

    Raises:
        Exception: any of several kinds, when the bytes are no message or a marked map does not fit.
    """
    whole = data if isinstance(data, Received) else None
    message: Any = data
    if len(message) < _LARGE:
        return _restore(_decode_plain(message))
    return _own(_decode_large(memoryview(message), whole))


def _decode_large(view: memoryview, whole: Received | None) -> Any:
    """Decode level by level while the message is large, so that a tensor is not copied by the decoder.

    Raw values are windows into the message. Only a long binary stays one, and only until it is owned or its
    tensor, array or image is made.
    """
    if len(view) < _LARGE:
        return _restore(_decode_plain(view))
    tag = view[0]
    if tag in _BINARY_HEADER:
        return view[_BINARY_HEADER[tag] :]
    if tag >> 4 == _FIXED_MAP or tag in _LONG_MAPS:
        parts = {key: _decode_large(memoryview(raw), whole) for key, raw in _decode_map(view).items()}
        if not RESERVED_KEYS.isdisjoint(parts):
            return _restore_marked(parts, whole)
        return {key: _own(part) for key, part in parts.items()}
    if tag >> 4 == _FIXED_ARRAY:  # longer ones are number lists, which the plain decoder handles best
        return [_own(_decode_large(memoryview(raw), whole)) for raw in _decode_array(view)]
    return _restore(_decode_plain(view))


def _own(part: Any) -> Any:
    """Turn a window into the message into bytes that outlive it."""
    return bytes(part) if isinstance(part, memoryview) else part


def _restore(obj: Any) -> Any:
    """Replace every marked map by what it stands for, in place."""
    if type(obj) is dict:
        if not RESERVED_KEYS.isdisjoint(obj):
            return _restore_marked(obj)
        for key, value in obj.items():
            kind = type(value)
            if kind is dict and value.get(TENSOR):  # most of them, and on the path of every chunk
                obj[key] = _decode_tensor(value)
            elif kind in _CONTAINERS:
                obj[key] = _restore(value)
    elif type(obj) is list:
        for index, value in enumerate(obj):
            if type(value) in _CONTAINERS:
                obj[index] = _restore(value)
    return obj


def _restore_marked(obj: dict[Any, Any], whole: Received | None = None) -> Any:
    if obj.get(TENSOR):
        return _decode_tensor(obj, whole)
    if obj.get(NDARRAY):
        return np.frombuffer(bytes(obj["data"]), dtype=obj["dtype"]).reshape(obj["shape"])
    if obj.get(IMAGE):
        return _decode_image(obj)
    return {key: _own(_restore(value)) for key, value in obj.items()}


def _decode_tensor(wire: dict[str, Any], whole: Received | None = None) -> torch.Tensor:
    dtype, shape, data = _DTYPES[wire["dtype"]], wire["shape"], wire["data"]
    if not data:
        if 0 not in shape:
            raise ValueError(f"no bytes for a tensor of shape {shape}")
        return torch.empty(shape, dtype=dtype)
    # Memory that can be written to, because a consumer may write into the tensor it received.
    memory = bytearray(data) if whole is None else _claim(data, whole)
    kind = _NUMPY_DTYPES.get(wire["dtype"])
    if kind is None:
        return torch.frombuffer(memory, dtype=dtype).reshape(shape)
    array = np.ndarray(shape, kind, memory)  # half the time of frombuffer and reshape, for a flag or a matrix
    if array.nbytes != len(data):
        raise ValueError(f"{len(data)} bytes for a tensor of shape {shape}")
    return torch.from_numpy(array)


def _claim(data: bytes | memoryview, whole: Received) -> Any:
    """Return the tensor's own part of the message if that is most of it and aligned, else a copy."""
    if isinstance(data, memoryview) and 2 * len(data) >= whole.size:
        address = _address(data)
        start = address - _address(whole)
        if address % _ALIGNMENT == 0 and 0 <= start <= whole.size - len(data):
            return whole[start : start + len(data)]
    return bytearray(data)


def _decode_image(wire: dict[str, Any]) -> Any:
    from PIL import Image

    pixels = np.frombuffer(bytes(wire["data"]), dtype=np.uint8).reshape(wire["shape"])
    return Image.fromarray(pixels, mode=wire["mode"])
