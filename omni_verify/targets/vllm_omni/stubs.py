"""Stand-ins for the few vllm names that vllm-omni's connector and adapter use (isolated loader).

Each stands for exactly one documented name; any other name of vllm stays missing, so that a release
which starts to use one fails with that name instead of running against a guess.
"""

from __future__ import annotations

import enum
import logging
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = [
    "CompletionOutput",
    "ConstantList",
    "PrefillStats",
    "Request",
    "RequestOutput",
    "RequestStatus",
    "install",
]


class RequestStatus(enum.IntEnum):
    """``vllm.v1.request.RequestStatus``: members up to PREEMPTED are live, later ones finished.

    vllm-omni adds ``WAITING_FOR_CHUNK`` with value -1 to vllm's enum when it is imported for real.
    """

    WAITING_FOR_CHUNK = -1
    WAITING = 1
    WAITING_FOR_STREAMING_REQ = 2
    RUNNING = 3
    PREEMPTED = 4
    FINISHED_STOPPED = 5
    FINISHED_LENGTH_CAPPED = 6
    FINISHED_ABORTED = 7
    FINISHED_IGNORED = 8
    FINISHED_ERROR = 9

    @staticmethod
    def is_finished(status: RequestStatus) -> bool:
        """Tell whether the status is one from which no request returns."""
        return status > RequestStatus.PREEMPTED


class Request:
    """``vllm.v1.request.Request``: used in annotations only."""


class PrefillStats:
    """``vllm.v1.metrics.stats.PrefillStats``: created empty and attached to a request."""


class ConstantList(Sequence[Any]):
    """``vllm.v1.utils.ConstantList``: a read-only view of a token list (0.28 and later)."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class CompletionOutput:
    """``vllm.outputs.CompletionOutput``: the serializer tests instances against it; none ever is one."""


class RequestOutput:
    """``vllm.outputs.RequestOutput``: as `CompletionOutput`."""


def _first_rank() -> int:
    """Stand for ``get_tensor_model_parallel_rank``: the only worker of its stage."""
    return 0


def _one_worker() -> int:
    """Stand for ``get_tensor_model_parallel_world_size``: no tensor parallelism."""
    return 1


_MODULES: dict[str, dict[str, object]] = {
    "vllm": {},
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.outputs": {"CompletionOutput": CompletionOutput, "RequestOutput": RequestOutput},
    "vllm.v1": {},
    "vllm.v1.metrics": {},
    "vllm.v1.metrics.stats": {"PrefillStats": PrefillStats},
    "vllm.v1.request": {"Request": Request, "RequestStatus": RequestStatus},
    "vllm.v1.utils": {"ConstantList": ConstantList},
    "vllm.distributed": {},
    "vllm.distributed.parallel_state": {
        "get_tensor_model_parallel_rank": _first_rank,
        "get_tensor_model_parallel_world_size": _one_worker,
    },
    # The real package probes for accelerators; the modules only keep a reference to this object.
    "vllm_omni.platforms": {"current_omni_platform": SimpleNamespace()},
}


def install() -> None:
    """Register the stand-ins in ``sys.modules``; call it before any vllm_omni module is imported."""
    for name, members in _MODULES.items():
        module = ModuleType(name, "Stand-in of omni-verify's isolated loader.")
        module.__path__ = []  # a package without files: an unknown submodule stays "not found"
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        vars(module).update(members)
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], leaf, module)
