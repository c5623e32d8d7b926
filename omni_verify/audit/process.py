"""Census of a process and its children: memory, descriptors, threads, shared-memory mappings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import msgspec
import psutil

from omni_verify.contracts.keys import SHM_ROOT

__all__ = ["Census", "ProcessSample", "census"]


class ProcessSample(msgspec.Struct, frozen=True, kw_only=True):
    """One process at one moment.

    Attributes:
        pid: process id.
        name: its executable's name.
        rss: resident bytes.
        fds: open descriptors; -1 when they may not be read.
        threads: number of threads.
        shm_mappings: mappings of files under /dev/shm; -1 when they may not be read.
        is_tracker: it is a resource tracker of multiprocessing.
    """

    pid: int
    name: str
    rss: int
    fds: int
    threads: int
    shm_mappings: int
    is_tracker: bool = False


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """A process and all its descendants, by pid."""

    process: ProcessSample
    children: tuple[ProcessSample, ...] = ()

    @property
    def rss(self) -> int:
        """Resident bytes of the process and its descendants; shared pages count in each."""
        return sum(sample.rss for sample in self._all())

    @property
    def fds(self) -> int:
        """Open descriptors of all; a process that may not be read counts as none."""
        return sum(max(0, sample.fds) for sample in self._all())

    @property
    def threads(self) -> int:
        """Threads of all."""
        return sum(sample.threads for sample in self._all())

    @property
    def tracker(self) -> ProcessSample | None:
        """The resource tracker among the descendants; it grows when its books do not balance (W29)."""
        return next((sample for sample in self.children if sample.is_tracker), None)

    def _all(self) -> Iterator[ProcessSample]:
        yield self.process
        yield from self.children


def census(pid: int | None = None) -> Census:
    """Look at a process (this one by default) and its descendants.

    Raises:
        ProcessLookupError: no such process.
    """
    number = os.getpid() if pid is None else pid
    try:
        process = psutil.Process(number)
        sample = _sample(process)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"there is no process {number}") from error
    children = []
    for child in sorted(process.children(recursive=True), key=lambda p: p.pid):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended while we looked
            children.append(_sample(child))
    return Census(process=sample, children=tuple(children))


def _sample(process: psutil.Process) -> ProcessSample:
    with process.oneshot():
        return ProcessSample(
            pid=process.pid,
            name=process.name(),
            rss=process.memory_info().rss,
            fds=_count_fds(process),
            threads=process.num_threads(),
            shm_mappings=_count_mappings(process.pid),
            is_tracker=_is_tracker(process),
        )


def _count_fds(process: psutil.Process) -> int:
    try:
        return process.num_fds()
    except psutil.AccessDenied:
        return -1


def _count_mappings(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
            return sum(f" {SHM_ROOT}/" in line for line in lines)
    except OSError:
        return -1


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except (psutil.AccessDenied, psutil.ZombieProcess):
        return False
