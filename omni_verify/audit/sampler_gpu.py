"""GPU memory through NVML, where there is an NVIDIA driver; nothing, and no error, where there is none."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Mapping
from typing import Any

__all__ = ["gpu_figures"]


def gpu_figures(pids: Mapping[str, int]) -> dict[str, float]:
    """Return ``gpu<n>.memory_used`` of each device and ``<part>.gpu_used`` of each process, in bytes.

    Needs the package nvidia-ml-py (module ``pynvml``). The driver does not tell processes of a container with
    its own pid namespace apart; their figures are then left out.
    """
    nvml = _nvml()
    values: dict[str, float] = {}
    if nvml is None:
        return values
    parts = {pid: part for part, pid in pids.items()}
    with contextlib.suppress(nvml.NVMLError):
        for number in range(nvml.nvmlDeviceGetCount()):
            device = nvml.nvmlDeviceGetHandleByIndex(number)
            values[f"gpu{number}.memory_used"] = float(nvml.nvmlDeviceGetMemoryInfo(device).used)
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(device):
                name = f"{parts.get(process.pid, '')}.gpu_used"
                if process.pid in parts and process.usedGpuMemory:
                    values[name] = values.get(name, 0.0) + float(process.usedGpuMemory)
    return values


@functools.cache
def _nvml() -> Any:
    """The initialised library, or None; asked once, for a machine does not get a GPU while a soak runs."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml
