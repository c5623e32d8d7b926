"""What the ends of a pair exchange: every field of the sender's schema, every dtype, every size.

The expectation travels beside the payload as a description that neither release has a part in: names
of types, shapes, and a digest of the raw bytes. What crosses the wire is type-erased (I15): a struct
arrives as a dict without its absent fields, a tuple as a list.
"""

from __future__ import annotations

import hashlib
import math
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from omni_verify.contracts.payload_schema import is_tensor

__all__ = ["Tree", "corpus", "describe", "difference"]

Tree = list[Any]
"""Description of a value: ``[kind, ...]``, of JSON types only."""

DTYPES = (
    "bfloat16",
    "bool",
    "complex64",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
)
SIZES = (1, 2, 127, 4095, 4096, 4097, (64 << 10) + 1, (128 << 10) - 64, 1 << 20, (4 << 20) - 1, 4 << 20)
"""Bytes of one tensor: around a page, around the sizes at which encoders change their way, up to 4 MiB."""


def corpus(payload_class: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, payload) for one sender.

    Args:
        payload_class: the sender's own payload struct; each field of it and of its parts is filled.
    """
    for choice in (0, 1):  # a field that takes a list or a string gets one of each
        yield f"schema-{choice}", _filled(payload_class, [0], choice)
    yield "schema-absent", payload_class()
    yield "schema-empty-parts", _empty_parts(payload_class)
    for dtype in DTYPES:
        yield f"dtype-{dtype}", _shapes(dtype)
    for size in SIZES:
        yield f"size-{size}", {"codes": {"audio": _tensor("uint8", (size,))}}
    yield "one-byte", 7
    yield "plain", _plain()


def describe(value: Any) -> Tree:
    """Describe a value as a receiver must see it: structs as maps without None, tuples as lists."""
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return describe({name: field for name, field in fields.items() if field is not None})
    if is_tensor(value):
        return ["tensor", str(value.dtype), list(value.shape), _digest(value)]
    if isinstance(value, Mapping):
        return ["map", sorted([describe(k), describe(v)] for k, v in value.items())]
    if isinstance(value, (list, tuple)):
        return ["list", *map(describe, value)]
    return [type(value).__name__, repr(value)]


def difference(expected: Tree, found: Tree, where: str = "payload") -> str:
    """Return where two descriptions differ first and how, in words; empty when they do not."""
    if expected == found:
        return ""
    if expected[0] == found[0] == "map":
        left, right = ({str(k[1]): v for k, v in tree[1]} for tree in (expected, found))
        for key in left.keys() | right.keys():
            if key not in right or key not in left:
                return f"{where}[{key}] {'is missing' if key in left else 'was never sent'}"
            inner = difference(left[key], right[key], f"{where}[{key}]")
            if inner:
                return inner
    if expected[0] == found[0] == "list" and len(expected) == len(found):
        for n, (left, right) in enumerate(zip(expected[1:], found[1:], strict=True)):
            inner = difference(left, right, f"{where}[{n}]")
            if inner:
                return inner
    return f"{where}: sent {_short(expected)}, got {_short(found)}"


def _short(tree: Tree) -> str:
    return " ".join(map(str, tree))[:90]


def _digest(tensor: Any) -> str:
    import torch

    raw = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(raw.numpy().tobytes()).hexdigest()


def _filled(struct: type[Any], serial: list[int], choice: int) -> Any:
    hints = typing.get_type_hints(struct)
    return struct(**{name: _value(hints[name], serial, choice) for name in struct.__struct_fields__})


def _value(hint: Any, serial: list[int], choice: int) -> Any:
    """Build a value of an annotated type; `serial` counts up so that no two fields are alike."""
    serial[0] += 1
    n, origin, arguments = serial[0], typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        options = [a for a in arguments if a is not type(None)]
        return _value(options[choice % len(options)], serial, choice)
    if origin is list:
        return [_value(arguments[0], serial, choice) for _ in range(3)]
    if origin is tuple:
        return tuple(_value(a, serial, choice) for a in arguments)
    if origin is dict:
        keys: list[Any] = [0, 7, 35] if arguments[0] is int else ["first", "zweite-ä"]
        return {key: _value(arguments[1], serial, choice) for key in keys}
    plain = {
        bool: n % 2 == choice,
        int: n - 5,
        float: n / 7,
        str: f"text {n} ä…",
        Any: [n, "any", None, {"k": 1.5}],
    }
    if hint in plain:
        return plain[hint]
    if issubclass(hint, msgspec.Struct):
        return _filled(hint, serial, choice)
    shapes = ((), (3,), (2, 3), (1, 4, 2), (0,))
    return _tensor(DTYPES[(n + choice) % len(DTYPES)], shapes[n % len(shapes)], n)


def _empty_parts(payload_class: type[Any]) -> Any:
    """A payload whose parts are there with nothing in them: they travel as empty maps, or not at all."""
    parts = {}
    for name, hint in typing.get_type_hints(payload_class).items():
        for option in typing.get_args(hint):
            if isinstance(option, type) and issubclass(option, msgspec.Struct):
                parts[name] = option()
    return payload_class(**parts)


def _shapes(dtype: str) -> dict[str, Any]:
    wide = _tensor(dtype, (6, 5))
    return {
        "0-d": _tensor(dtype, ()),
        "empty": _tensor(dtype, (0,)),
        "no-rows": _tensor(dtype, (2, 0, 3)),
        "flat": _tensor(dtype, (17,)),
        "transposed": wide.t(),
        "strided": wide[::2, 1::3],
        "window": wide[2],
        "expanded": _tensor(dtype, (1, 3)).expand(4, 3),
    }


def _tensor(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Return a tensor with the same content for the same arguments, in any process."""
    import torch

    kind = getattr(torch, dtype)
    count = math.prod(shape)
    ramp = (torch.arange(count, dtype=torch.int64) * 37 + seed * 11 + 3) % 251
    if kind.is_complex:
        return torch.complex(ramp.float() / 8, -ramp.float()).to(kind).reshape(shape)
    if kind.is_floating_point:
        return (ramp.double() / 8 - 9).to(kind).reshape(shape)
    return (ramp % 2 == 0 if dtype == "bool" else ramp.to(kind)).reshape(shape)


def _plain() -> dict[str, Any]:
    return {
        "hidden_states": {"layers": {0: _tensor("bfloat16", (2, 4)), 24: _tensor("bfloat16", (2, 4), 1)}},
        "nested": [[1, [2, [3, []]]], {"deep": {"deeper": [_tensor("float32", (2,)), None]}}],
        "numbers": [0, -1, 2**31, 2**63 - 1, -(2**63), 0.1, float("inf"), -0.0],
        "texts": ["", "ä€😀", "a\x00b", "x" * 300],
        "bytes": b"\x00\xff" * 40,
        "flags": (True, False, None),
    }
