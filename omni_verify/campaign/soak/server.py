"""An external server as a soak's system: requests by HTTP, measured from outside."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import psutil

from omni_verify import settings as bounds
from omni_verify.audit import shm
from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.campaign.soak.system import Death
from omni_verify.contracts.keys import SHM_ROOT
from omni_verify.errors import TargetUnusableError
from omni_verify.harness.soak.client import SoakClient
from omni_verify.harness.soak.messages import Hello, News, Quiet, Report
from omni_verify.harness.soak.plan import Plan
from omni_verify.targets.protocol import TargetInfo

__all__ = ["SETTLE_S", "ServerSystem"]

SETTLE_S = 10.0
"""Seconds that a server gets after its last request to clean up behind clients that left."""
_LOOK_S = 0.2


class ServerSystem:
    """A server that somebody else runs; it is asked by HTTP and measured by its process ids.

    Only what names a request of this soak counts as its shared memory: request ids carry the run's prefix,
    which a server must use in its keys for the audit to see them.

    Args:
        options: url, endpoint, pids.
    """

    def __init__(self, options: SoakOptions) -> None:
        self.parts: Sequence[int] = (0,)
        self.inspects = False
        self.isolation = "prefix"
        self.prefix = f"ovs{secrets.token_hex(4)}-"
        self._options = options
        self._client = SoakClient(options.url, options.endpoint, self.prefix, options.request_s)
        self.info = TargetInfo(name=options.url, connector="server", loader="http")
        self._reports: queue.SimpleQueue[tuple[int, Report | Death]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(options.concurrency, thread_name_prefix="omni-verify-client")
        self._names: dict[int, str] = {}
        self._dead: set[int] = set()
        self._quiesce: tuple[int, float] | None = None

    def start(self) -> None:
        """Ask the server for its model, and look at its processes.

        Raises:
            TargetUnusableError: it does not answer, or there is no such process.
        """
        self.info = msgspec.structs.replace(self.info, version=self._client.look(bounds.load().load_s))
        for pid in self._options.pids:
            if not psutil.pid_exists(pid):
                raise TargetUnusableError(f"there is no process {pid}; --pid names processes of the server.")
        self._reports.put((0, Hello(0, 0, b"")))

    def submit(self, plans: list[Plan]) -> None:
        """Send requests, each on a thread."""
        for plan in plans:
            self._threads.submit(self._one, plan)

    def abort(self, indices: list[int], parts: Sequence[int], *, at_once: bool = False) -> None:
        """Nothing to tell: a client that leaves hangs up, and one that hangs ends by its own time limit."""

    def forget(self, indices: list[int], *, release: bool = True) -> None:
        """Confirm: the server keeps its own books."""
        self._reports.put((0, News(forgotten=indices)))

    def quiesce(self, number: int) -> None:
        """Wait until nothing of this run lies in shared memory, at most `SETTLE_S`."""
        self._quiesce = (number, time.monotonic() + SETTLE_S)

    def inspect(self, number: int, *, collect: bool = False, trim: bool = False) -> None:
        """Nobody answers: a server is seen from outside only."""

    def poll(self, timeout_s: float) -> list[tuple[int, Report | Death]]:
        """Wait for reports, at most so long."""
        events: list[tuple[int, Report | Death]] = []
        with contextlib.suppress(queue.Empty):
            events.append(self._reports.get(timeout=min(timeout_s, _LOOK_S)))
            while True:
                events.append(self._reports.get_nowait())
        if self._quiesce is not None:
            number, end = self._quiesce
            if time.monotonic() >= end or not self.shm().entries:
                self._quiesce = None
                events.append((0, Quiet(number=number)))
        return [*events, *self._deaths()]

    def pids(self) -> Mapping[str, int]:
        """``server`` for the first process, ``server-<n>`` for the others and for all descendants."""
        for pid in self._options.pids:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                for each in (process, *process.children(recursive=True)):
                    number = len(self._names)
                    self._names.setdefault(each.pid, f"server-{number}" if number else "server")
        return {name: pid for pid, name in self._names.items() if psutil.pid_exists(pid)}

    def signal(self, stage: int, number: int) -> int:
        """Send a signal to the first process of the server."""
        for pid in self._options.pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                return pid
        return 0

    def restart(self, stage: int) -> None:
        """Nothing: whoever runs the server restarts it."""

    def sweep(self, label: str) -> tuple[str, ...]:
        """Nothing: what a server left is for its own start to remove, and for the audit to show."""
        return ()

    def sweep_journals(self) -> None:
        """Nothing: as `sweep`."""

    def shm(self) -> shm.Listing:
        """What names a request of this run."""
        root = f"/proc/{self._options.pids[0]}/root{SHM_ROOT}" if self._options.pids else SHM_ROOT
        try:
            listing = shm.scan("", root)
        except OSError:
            return shm.Listing(prefix=self.prefix)
        return shm.Listing(
            prefix=self.prefix, entries=tuple(e for e in listing.entries if self.prefix in e.name)
        )

    def close(self) -> list[str]:
        """Wait for the clients; return what still names a request of this run."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        return [e.name for e in self.shm().entries]

    def _one(self, plan: Plan) -> None:
        self._reports.put((0, News(over=[self._client.run(plan)])))

    def _deaths(self) -> list[tuple[int, Report | Death]]:
        gone = [p for p in self._options.pids if p not in self._dead and not psutil.pid_exists(p)]
        self._dead.update(gone)
        return [
            (0, Death(stage=-1, pid=pid, code=1, log=f"process {pid} of the server is gone")) for pid in gone
        ]
