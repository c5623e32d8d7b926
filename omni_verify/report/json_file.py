"""The JSON report: one object, written in one step."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from omni_verify.errors import UsageError

__all__ = ["write_json", "write_text"]


def write_json(where: str, value: object) -> None:
    """Write a result as JSON to a file, or to stdout for ``-``.

    Raises:
        UsageError: the file cannot be written.
    """
    write_text(where, msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def write_text(where: str, text: str) -> None:
    """Write text to a file through a temporary neighbour, so that a reader never sees a half."""
    if where == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.part")
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {where!r}: {error.strerror}.") from None
