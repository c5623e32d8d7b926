"""Remove the arrival FIFOs that killed receivers left (W28).

Apart from the other reclaiming because it needs no connector: who only launches and cleans up loads no torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

__all__ = ["remove_dead_fifos"]


def remove_dead_fifos(directory: str) -> int:
    """Remove the arrival FIFOs of receivers that were killed, then the directory when it is empty.

    A FIFO that nobody reads belongs to nobody: a live receiver holds its own open.
    """
    removed = 0
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(directory):
            path = f"{directory}/{name}"
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(os.lstat(path).st_mode) and not _has_reader(path):
                    os.unlink(path)
                    removed += 1
        with contextlib.suppress(OSError):
            os.rmdir(directory)
    return removed


def _has_reader(fifo: str) -> bool:
    """Tell whether some process has the FIFO open for reading."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
    except OSError as error:
        return error.errno != errno.ENXIO
    return True
