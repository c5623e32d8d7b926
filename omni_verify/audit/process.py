"""Processes seen from outside: descendants, descriptors, shared-memory mappings, resource trackers."""

from __future__ import annotations

import psutil

from omni_verify.contracts.keys import SHM_ROOT

__all__ = ["count_fds", "count_mappings", "descendants", "is_tracker"]


def descendants(pid: int) -> list[psutil.Process]:
    """Return the processes below a process, by pid; one that has ended and was not reaped is among them.

    Raises:
        ProcessLookupError: no such process.
    """
    try:
        return sorted(psutil.Process(pid).children(recursive=True), key=lambda p: p.pid)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"there is no process {pid}") from error


def count_fds(process: psutil.Process) -> int:
    """Count open descriptors; -1 when they may not be read."""
    try:
        return process.num_fds()
    except psutil.AccessDenied:
        return -1


def count_mappings(pid: int) -> int:
    """Count mappings of files under /dev/shm; -1 when they may not be read."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
            return sum(f" {SHM_ROOT}/" in line for line in lines)
    except OSError:
        return -1


def is_tracker(process: psutil.Process) -> bool:
    """Tell whether it is a resource tracker of multiprocessing (W29)."""
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return False
