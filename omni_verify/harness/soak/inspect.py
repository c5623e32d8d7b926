"""What a stage of a soak looks like from inside its process: heap, containers, queues."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from typing import Any

import psutil

from omni_verify.audit import state

__all__ = ["collect", "heap_figures", "measure", "run_entries"]


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and later; every field is a size."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


@functools.cache
def _mallinfo2() -> Any:
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is not None:
        function.restype = _Mallinfo2
    return function


def heap_figures() -> dict[str, float]:
    """Bytes of this process's C heap in use and retained by the allocator, and blocks of Python objects.

    ``heap_used`` are bytes that ``malloc`` has given out (mapped ones included), ``heap_retained`` bytes that
    it holds free, ``blocks`` small Python objects. A figure that the platform does not have is left out.
    """
    values = {"blocks": float(sys.getallocatedblocks())}
    function = _mallinfo2()
    if function is not None:
        info = function()
        values["heap_used"] = float(info.uordblks + info.hblkhd)
        values["heap_retained"] = float(info.fordblks)
    elif hasattr(psutil, "heap_info"):
        heap = psutil.heap_info()
        values["heap_used"] = float(heap.heap_used + heap.mmap_used)
    return values


def collect(*, trim: bool = False) -> None:
    """Collect garbage; `trim` also asks the allocator to give back what it retains (vllm-omni#6462)."""
    gc.collect()
    if not trim:
        return
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


def run_entries(adapter: Any, prefix: str) -> list[state.StateEntry]:
    """Return every entry of the adapter's and its connector's containers that names a request of the run."""
    return state.find_prefixed({"adapter": adapter}, prefix)


def measure(adapter: Any, prefix: str) -> dict[str, float]:
    """Measure one stage; call it on its scheduler thread.

    Returns:
        The heap figures; ``containers``: entries that name a request of the run; ``container.<path>``: the
        same by container, only those that have some; ``size.<path>``: length of every container;
        ``save_queue`` and ``pending_keys``.
    """
    values = heap_figures()
    entries = run_entries(adapter, prefix)
    values["containers"] = float(len(entries))
    for entry in entries:
        name = f"container.{entry.container.partition('.')[2]}"
        values[name] = values.get(name, 0.0) + 1
    for path, size in state.container_sizes({"adapter": adapter}).items():
        values[f"size.{path.partition('.')[2]}"] = float(size)
    values["save_queue"] = float(len(adapter._pending_save_reqs))
    pending = getattr(adapter.connector, "_pending_keys", None)
    if pending is not None:
        values["pending_keys"] = float(len(pending))
    return values
