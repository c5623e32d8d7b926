"""Runs over many cases; emits events, prints nothing.

`check` is the main job and `matrix` repeats it over releases; `Zygote` is the process that holds a
target, through which every campaign (and the pytest plugin) runs its work. Importing this room registers
the seeded bugs as variants of the reference, in the process that holds a target too.
"""

from omni_verify.campaign.check import NothingSelectedError, check, chosen
from omni_verify.campaign.known_failures import KnownFailures
from omni_verify.campaign.matrix import MatrixResult, matrix
from omni_verify.campaign.result import CaseRecord, RunResult
from omni_verify.campaign.store import RunStore
from omni_verify.campaign.zygote import Zygote
from omni_verify.faults import mutants as _seeded  # noqa: F401 - importing it registers them

__all__ = [
    "CaseRecord",
    "KnownFailures",
    "MatrixResult",
    "NothingSelectedError",
    "RunResult",
    "RunStore",
    "Zygote",
    "check",
    "chosen",
    "matrix",
]
