"""What a long run is measured by from outside: processes and shared memory, as figures of a `Sample`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import psutil

from omni_verify.audit.process import count_fds, count_mappings, is_tracker
from omni_verify.audit.shm import Listing

__all__ = ["memory_of", "process_figures", "shm_figures"]


def process_figures(pids: Mapping[str, int]) -> dict[str, float]:
    """Measure the processes of a run; what could not be read is left out.

    The figures of a part are ``<part>.rss``, ``uss``, ``pss`` (bytes), ``fds``, ``threads``, ``shm_mappings``
    and ``children`` (counts), and ``pid``, so that a reader can tell a new process from a fall of its memory.
    The part ``tracker`` (the resource tracker of multiprocessing, W29) is found among the children of others.
    """
    values: dict[str, float] = {}
    for part, pid in pids.items():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            children = process.children()
            values |= _figures_of(part, process)
            values[f"{part}.children"] = float(len(children))
            for child in children:
                if is_tracker(child):
                    values |= _figures_of("tracker", child)
    return values


def memory_of(pid: int) -> dict[str, float]:
    """Return ``rss``, ``uss``, ``pss`` of a process in bytes from ``smaps_rollup``; empty when unreadable."""
    wanted = {"Rss": ("rss",), "Pss": ("pss",), "Private_Clean": ("uss",), "Private_Dirty": ("uss",)}
    values: dict[str, float] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            for figure in wanted.get(name, ()):
                values[figure] = values.get(figure, 0.0) + 1024.0 * int(rest.split()[0])
    return values


def shm_figures(listing: Listing) -> dict[str, float]:
    """Count what lies in shared memory.

    Returns:
        ``shm.segments``, ``shm.locks``, ``shm.fifos``, ``shm.journals``, ``shm.spares``, ``shm.foreign``
        (counts), ``shm.bytes`` (of all segments) and ``shm.oldest_s`` (age of the oldest unread segment in
        seconds).
    """
    segments = listing.select("segment")
    return {
        "shm.segments": float(len(segments)),
        "shm.locks": float(len(listing.select("lock"))),
        "shm.fifos": float(len(listing.select("fifo"))),
        "shm.journals": float(len(listing.select("owner"))),
        "shm.spares": float(len(listing.select("spare"))),
        "shm.foreign": float(len(listing.foreign)),
        "shm.bytes": float(sum(e.size for e in segments)),
        "shm.oldest_s": max((e.age_s for e in segments), default=0.0),
    }


def _figures_of(part: str, process: psutil.Process) -> dict[str, float]:
    values = memory_of(process.pid) or {"rss": float(process.memory_info().rss)}
    values |= {"threads": float(process.num_threads()), "pid": float(process.pid)}
    for name, count in (("fds", count_fds(process)), ("shm_mappings", count_mappings(process.pid))):
        if count >= 0:
            values[name] = float(count)
    return {f"{part}.{name}": value for name, value in values.items()}
