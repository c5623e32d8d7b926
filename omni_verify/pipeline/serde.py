"""Bytes of a payload: vllm-omni's msgpack wire format, so that either end may be the reference (I15).

The format is type-erased: a struct arrives as a dict, a tuple as a list, and a plain dict that happens to
hold a marker would arrive as another type. The last is refused when it is written instead of being misread
later (W32).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import torch

from omni_verify.errors import OmniVerifyError
from omni_verify.pipeline import wire
from omni_verify.pipeline.wire import RESERVED_KEYS, Buffer

__all__ = ["RESERVED_KEYS", "Buffer", "OmniSerializer", "PayloadDecodeError", "PayloadEncodeError"]

# A receiver rebuilds these maps as request outputs, which are no chunk payloads.
_LOOKALIKES = (
    frozenset({"finished", "final_output_type"}),
    frozenset({"finished", "images"}),
    frozenset({"request_id", "prompt", "prompt_token_ids", "outputs", "finished"}),
    frozenset({"index", "text", "token_ids", "finish_reason"}),
)
_IN_EVERY_LOOKALIKE = frozenset({"finished", "index"})
_SHORT = 8 * 1024  # bytes; above, the walk is faster
_LEAVES = frozenset({int, float, str, bytes, bool, type(None), torch.Tensor})
_ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, RuntimeError, KeyError)
_DECODE_ERRORS = (msgspec.MsgspecError, *_ENCODE_ERRORS, AttributeError, IndexError, MemoryError)


class PayloadEncodeError(OmniVerifyError, TypeError):
    """A payload cannot be written to the wire without changing its meaning (W32)."""


class PayloadDecodeError(OmniVerifyError, ValueError):
    """Bytes that were consumed do not form a payload; polling the key again cannot help (W8)."""


class OmniSerializer:
    """Serializes payloads; stateless, and safe in any thread."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        """Encode an object of msgpack types, structs, dataclasses, tensors, arrays, images and slices.

        Tensors are detached and copied to the CPU; a view costs its own bytes, not those of its storage.

        Raises:
            PayloadEncodeError: a type without a wire form, or a map with reserved keys.
        """
        pieces = OmniSerializer.pieces(obj)
        return b"".join(pieces) if len(pieces) > 1 else bytes(pieces[0])

    @staticmethod
    def pieces(obj: Any) -> list[bytes | memoryview]:
        """Encode as :meth:`serialize`, into pieces that make up the message in a row.

        A large tensor is a piece by itself and not copied: it must not change until the pieces are used.
        """
        try:
            pieces, text, marked = wire.encode(obj)
            if _may_mislead(text, marked):
                _refuse_reserved(obj)
            return pieces
        except PayloadEncodeError:
            raise
        except _ENCODE_ERRORS as error:
            raise PayloadEncodeError(f"cannot serialize {type(obj).__name__}: {error}") from error

    @staticmethod
    def deserialize(data: Buffer) -> Any:
        """Decode bytes to dicts, lists, scalars and writable tensors; arrays are read-only.

        Raises:
            PayloadDecodeError: truncated or foreign bytes, or a marked map whose parts do not fit.
        """
        try:
            return wire.decode(data)
        except _DECODE_ERRORS as error:
            detail = f"{type(error).__name__}: {error}"
            raise PayloadDecodeError(f"cannot decode {len(data)} payload bytes: {detail}") from error


def _may_mislead(text: bytes, marked: int) -> bool:
    """Tell from the bytes whether the payload must be walked; no is certain, yes is not.

    The bytes of a chunk are looked through in a fraction of the time that a walk through dozens of fields
    takes. Every reserved key has two double underscores, and every lookalike has images, a finish_reason,
    outputs or a final_output_type.
    """
    if len(text) > _SHORT or text.count(b"__") != 2 * marked:
        return True
    return b"output" in text or b"images" in text or b"finish_reason" in text


def _refuse_reserved(obj: Any) -> None:
    """Walk the containers of a payload before it is encoded; what is inside tensors is not looked at."""
    if isinstance(obj, msgspec.Struct):
        values: Iterable[Any] = [getattr(obj, name) for name in obj.__struct_fields__]
    elif isinstance(obj, Mapping):
        _refuse_map(obj.keys())
        values = obj.values()
    elif isinstance(obj, (list, tuple)):
        values = obj
    else:
        return
    for value in values:
        if type(value) not in _LEAVES:
            _refuse_reserved(value)


def _refuse_map(keys: Any) -> None:
    if not RESERVED_KEYS.isdisjoint(keys):
        raise PayloadEncodeError(
            f"reserved map key {sorted(RESERVED_KEYS.intersection(keys))!r}: the receiver would read this "
            "map as a tensor, array or image. Rename the key."
        )
    if _IN_EVERY_LOOKALIKE.isdisjoint(keys):
        return
    for shape in _LOOKALIKES:
        if shape <= keys:
            raise PayloadEncodeError(
                f"a map with the keys {sorted(shape)!r} would be read as a request output. Rename it."
            )
