"""The environment of the processes that a campaign starts."""

from __future__ import annotations

import os
from pathlib import Path

import omni_verify

__all__ = ["child_environment"]


def child_environment() -> dict[str, str]:
    """Environment in which this very package is found, also from a checkout that is not installed."""
    root = str(Path(omni_verify.__file__).parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        # Targets walk over sets of ids: their order is part of a trace, so it must not depend on the process.
        "PYTHONHASHSEED": "0",
    }
