"""A lock between processes on a file that stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from omni_verify.errors import TargetUnusableError

__all__ = ["exclusive"]

_RETRY_S = 0.05


@contextlib.contextmanager
def exclusive(path: Path, limit: float) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the kernel frees it when the holder dies.

    The file is never removed: removing it would let two processes lock two inodes of one name (W3).

    Raises:
        TargetUnusableError: another process held it for `limit` seconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + limit
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TargetUnusableError(
                        f"another process has held {path} for {limit:g} s; it may hang while it fetches a "
                        "release. End it, or raise OMNI_VERIFY_FETCH_S."
                    ) from None
                time.sleep(_RETRY_S)
        yield
    finally:
        os.close(descriptor)
