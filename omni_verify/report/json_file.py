"""The JSON report: one object, written in one step."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import msgspec

from omni_verify.audit.draft import draft_of, prove_writable
from omni_verify.errors import UsageError
from omni_verify.report.plain import plain_values
from omni_verify.report.silence import silence

__all__ = ["check_writable", "write_json", "write_text"]


def check_writable(where: str | None) -> None:
    """Try whether a report can be written there, before a run whose result would be lost; None is no report.

    Raises:
        UsageError: it cannot.
    """
    if where is None or where == "-":
        return
    try:
        prove_writable(_path(where))
    except OSError as error:
        raise _refused(where, error) from None


def write_json(where: str, value: object) -> None:
    """Write a result as JSON to a file, or to stdout for ``-``.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        content = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a name that is no UTF-8
        content = msgspec.json.encode(plain_values(value))
    write_text(where, msgspec.json.format(content).decode() + "\n")


def write_text(where: str, text: str) -> None:
    """Write text to a file through a temporary neighbour, so that a reader never sees a half.

    Raises:
        UsageError: the file cannot be written.
    """
    if where == "-":
        _say(text)
        return
    try:
        with draft_of(_path(where)) as draft:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise _refused(where, error) from None


def _say(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as head has
        silence(sys.stdout)
    except OSError as error:
        raise _refused("-", error) from None


def _path(where: str) -> Path:
    if not where or "\0" in where:
        raise UsageError(f"{where!r} names no file; give a path, or - for stdout.")
    return Path(where)


def _refused(where: str, error: OSError) -> UsageError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    fix = "Make room, or name a file elsewhere." if is_full else "Name a file in a folder that you may write."
    return UsageError(f"cannot write {where!r}: {error.strerror}. {fix}")
