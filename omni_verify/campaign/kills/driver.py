"""The driver's side of a pipeline under kill: starts it, holds its stages at points, kills by pid.

It loads neither torch nor the pipeline, so that it takes no part in what it audits.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from omni_verify.audit.process import descendants, is_tracker
from omni_verify.contracts.keys import parse_key
from omni_verify.errors import OmniVerifyError, UsageError

__all__ = ["Hold", "PipelineUnderKill", "wait_ended"]

BOUND_S = 120.0
"""Seconds that one wait may take; reaching it is a problem of the cell, never a verdict."""

_PROGRAM = "import sys; from omni_verify.campaign.kills.stage import serve_kills\n"
_PROGRAM += "if __name__ == '__main__': serve_kills(sys.argv[1], sys.argv[2])\n"


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A point at which a stage is to stop: of this request and, for chunks, from this number on."""

    stage: int
    point: str
    request: str = ""
    chunk: int | None = None

    def matches(self, stage: int, point: str, key: str) -> bool:
        """Tell whether an arrival is meant."""
        if (stage, point) != (self.stage, self.point):
            return False
        if self.chunk is None:
            return not self.request or self.request in key.split()
        try:
            found = parse_key(key)
        except UsageError:
            return False
        return found.external_id == self.request and found.chunk_id >= self.chunk


class PipelineUnderKill:
    """One pipeline in processes of its own; use as a context manager, which kills what is left.

    Raises:
        OmniVerifyError: it did not come up, or an awaited event did not happen in `BOUND_S`.
    """

    def __init__(self, scope: str) -> None:
        self.stages: dict[int, int] = {}
        self.results: dict[str, str] = {}
        self.rest: bool | None = None
        self._holds: list[Hold] = []
        self._held: dict[Hold, Connection] = {}
        self._stage_of: dict[Connection, int] = {}
        self._seen: set[int] = set()
        self._folder = tempfile.TemporaryDirectory(prefix="omni-verify-kill-")
        address = os.path.join(self._folder.name, "driver")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(16)
        self._pipes: list[Connection] = []
        self._server: Connection | None = None
        program = Path(self._folder.name, "server.py")
        program.write_text(_PROGRAM)
        self._log = os.open(os.path.join(self._folder.name, "log"), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        # a session of its own: a Ctrl-C of the terminal is the driver's to handle
        self.process = subprocess.Popen(
            [sys.executable, str(program), address, scope],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def parent(self) -> int:
        """Pid of the orchestrator's process."""
        return self.process.pid

    @property
    def tracker(self) -> int:
        """Pid of the resource tracker."""
        found = next((p.pid for p in descendants(self.parent) if is_tracker(p)), None)
        if found is None:
            raise OmniVerifyError("the pipeline's parent has no resource tracker")
        return found

    def everybody(self) -> list[int]:
        """Return the pids of the parent and of all below it, and of stages that outlived their parent."""
        pids = {self.parent, *self._seen}
        with contextlib.suppress(ProcessLookupError):
            pids |= {child.pid for child in descendants(self.parent)}
        self._seen |= pids
        return sorted(pid for pid in pids if is_alive(pid))

    def wait_up(self) -> None:
        """Wait until the pipeline accepts requests."""
        self.until(lambda: self._server is not None and len(self.stages) == 3, "the pipeline to start")
        self.everybody()

    def submit(self, request_id: str, frames: int = 60) -> None:
        """Start a request."""
        self._command("submit", request_id, frames)

    def abort(self, request_id: str) -> None:
        """Abort a request."""
        self._command("abort", request_id)

    def close(self) -> None:
        """Have the pipeline shut down; `wait_ended(everybody())` waits for it."""
        self._command("close")

    def wait_rest(self) -> None:
        """Wait until no request is live and every release is confirmed."""
        self.rest = None
        self._command("rest")
        self.until(lambda: self.rest is not None, "the answer whether the pipeline rests")
        if not self.rest:
            raise OmniVerifyError(f"the pipeline did not come to rest\n{self.log()}")

    def hold(self, *holds: Hold) -> None:
        """From now on, stop arrivals at these points."""
        self._holds = list(holds)

    def wait_held(self, hold: Hold) -> None:
        """Wait until a stage has stopped there."""
        self.until(lambda: hold in self._held, f"stage {hold.stage} to reach {hold.point}")

    def let_go(self) -> None:
        """Open every gate."""
        self._holds = []
        for pipe in self._held.values():
            _answer(pipe)
        self._held = {}

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float = BOUND_S) -> None:
        """Serve the stages until the predicate is true."""
        deadline = time.monotonic() + bound_s
        while not predicate():
            if time.monotonic() > deadline:
                raise OmniVerifyError(f"waited in vain for {what}\n{self._stacks()}")
            if self._server is None and self.process.poll() is not None:
                raise OmniVerifyError(f"the pipeline ended while starting\n{self.log()}")
            self._serve(0.5)

    def wait_ended(self, pids: Iterable[int]) -> None:
        """Wait until these processes have ended, serving those that have not."""
        left = list(pids)
        self.until(lambda: self._reap() and not any(map(is_alive, left)), f"processes {left} to end")

    def log(self) -> str:
        """Return the end of what the processes have logged."""
        return Path(self._folder.name, "log").read_text()[-20_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self.everybody()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_ended(left)
        self.process.wait(BOUND_S)
        for pipe in self._pipes:
            pipe.close()
        self._listener.close()
        os.close(self._log)
        self._folder.cleanup()

    # -- parts -----------------------------------------------------------------------------------

    def _stacks(self) -> str:
        """Have every process that is up write its stacks to the log, and return its end."""
        for pid in (self.parent, *self.stages.values()):
            with contextlib.suppress(ProcessLookupError):
                if self._server is not None and is_alive(pid):
                    os.kill(pid, signal.SIGUSR1)
                    self._serve(0.5)
        return self.log()

    def _reap(self) -> bool:
        self.process.poll()
        return True

    def _command(self, *message: Any) -> None:
        if self._server is None:
            raise OmniVerifyError("the pipeline is not up")
        self._server.send(message)

    def _serve(self, seconds: float) -> None:
        for ready in wait([self._listener, *self._pipes], seconds):
            if ready is self._listener:
                accepted, _ = self._listener.accept()
                self._pipes.append(Connection(accepted.detach()))
            elif isinstance(ready, Connection):
                try:
                    self._take(ready, ready.recv())
                except (EOFError, OSError):
                    self._pipes.remove(ready)
                    ready.close()

    def _take(self, pipe: Connection, message: tuple[Any, ...]) -> None:
        match message:
            case ("stage", int(stage), int(pid)):
                self._stage_of[pipe] = stage
                self.stages[stage] = pid
                self._seen.add(pid)
            case ("server", int()):
                self._server = pipe
            case ("at", str(point), str(key)):
                stage = self._stage_of[pipe]
                found = next((h for h in self._holds if h.matches(stage, point, key)), None)
                if found is None or found in self._held:
                    _answer(pipe)
                else:
                    self._held[found] = pipe
            case ("done", str(request_id)):
                self.results[request_id] = "done"
            case ("failed", str(request_id), str(reason)):
                self.results[request_id] = reason
            case ("rest", bool(answer)):
                self.rest = answer


def _answer(pipe: Connection) -> None:
    with contextlib.suppress(OSError):
        pipe.send(())


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_ended(pids: Iterable[int]) -> None:
    """Wait for processes that need not be our children.

    Raises:
        OmniVerifyError: one lives on.
    """
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([fd], [], [], BOUND_S)[0]:
                raise OmniVerifyError(f"process {pid} did not end")
        finally:
            os.close(fd)
