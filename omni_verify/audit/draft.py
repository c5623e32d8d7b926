"""A file that is written beside its place and put there in one step, so that a reader never sees a half."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["draft_of", "prove_writable"]


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield where to write; at the end it replaces `path`, after an error nothing of it is left.

    A link is followed, and what is no regular file (a device, a pipe) is written in place: a file put over
    ``/dev/null`` would be the end of it.

    Raises:
        OSError: the folder cannot be made or written.
    """
    if path.exists() and (_is_special(path) or _is_special(_real(path))):
        yield path
        return
    place = _real(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        raise IsADirectoryError(21, "Is a directory")
    draft = place.with_name(f".{place.name[:40]}-{os.getpid()}.part")
    try:
        yield draft
        draft.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def prove_writable(path: Path) -> None:
    """Try whether a file could be written there, before a long run ends without its report; leaves nothing.

    Raises:
        OSError: it could not.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory")
    if path.exists() and _is_special(path):
        return
    folder = _real(path).parent
    while not folder.exists():
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder):
        pass


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # as Path.resolve, which raises on a link to itself


def _is_special(path: Path) -> bool:
    """Whether it is no regular file of a file system, but for example the process's own output."""
    if not (path.is_file() or path.is_dir()):
        return True
    return path.is_relative_to("/dev") or path.is_relative_to("/proc")
