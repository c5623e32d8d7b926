"""An output that cannot be written any more: what is still to come goes nowhere."""

from __future__ import annotations

import contextlib
import os
from typing import IO

__all__ = ["silence"]


def silence(stream: IO[str]) -> None:
    """Send the rest of a stream nowhere, so that the flush at exit does not fail over it once more."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
