"""Text of others (names of files, processes, figures; answers of servers) made safe to show."""

from __future__ import annotations

import msgspec

__all__ = ["plain", "plain_values"]


def plain(text: str, *, keep: str = "") -> str:
    r"""Write every character that is not printable as its escape, so that it is seen and does nothing.

    A name may hold line breaks, terminal commands, marks that turn the direction of writing, or bytes that
    are no UTF-8 at all; the latter are shown as bytes (``\xe9``).

    Args:
        text: of others.
        keep: characters that stay although they are not printable, for example the line break of a log.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def plain_values(value: object) -> object:
    r"""Return a value as built-in types whose strings can all be encoded; only what cannot be is escaped.

    JSON has an escape for every character but for the bytes of a name that is no UTF-8.
    """
    return _encodable(msgspec.to_builtins(value))


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return "".join(_escape(c) if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(v) for v in value]
    return value


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
