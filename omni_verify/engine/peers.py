"""Peer processes under the gates of their parent.

The child is forked before its parent starts a thread. Its threads reach points through a pipe: the
arrival is submitted to the parent's `Gatekeeper`, the grant comes back. So one total order and one
partial order span all processes, and killing a process leaves a trace that says how far it came.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from omni_verify.engine.gates import Gatekeeper
from omni_verify.engine.runtime import Cut
from omni_verify.trace.event import Event, Trace

__all__ = ["Peer", "PeerRuntime"]


class PeerRuntime:
    """The runtime inside a peer: one actor, gates at the parent (`engine.runtime.Runtime`)."""

    def __init__(self, name: str, pipe: Connection, *, gate_s: float, wait_s: float, prefix: str) -> None:
        self.trace = Trace()
        self.failures: dict[str, BaseException] = {}
        self.cut = ""
        self.stacks = ""
        self.inside: dict[str, str] = {}
        self._name, self._pipe, self._prefix = name, pipe, prefix
        self._gate_s, self._wait_s = gate_s, wait_s
        self._ids = itertools.count()
        self._grants: dict[int, threading.Event] = {}
        self._main = threading.current_thread()
        self._send_lock = threading.Lock()
        self._changed = threading.Condition()
        self.go = threading.Event()
        threading.Thread(target=self._listen, name=f"{name}.pipe", daemon=True).start()

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Arrive at a point; blocks until the parent grants it."""
        actor = self._actor()
        number, granted = next(self._ids), threading.Event()
        self._grants[number] = granted
        self.send("reach", number, actor, point, key.removeprefix(self._prefix), detail)
        if not granted.wait(self._gate_s):
            self.cut = self.cut or f"{actor} waited in vain at gate {point}({key})"
        with self._changed:
            self.trace.append(actor, point, key.removeprefix(self._prefix), detail)
            self._changed.notify_all()

    def send(self, *message: Any) -> None:
        """Send one message to the parent; a parent that has gone is no error here."""
        with self._send_lock, contextlib.suppress(OSError):
            self._pipe.send(message)

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float | None = None) -> None:
        """Wait until `predicate()` is true; looked at after each event of this process."""
        deadline = time.monotonic() + (bound_s or self._wait_s)
        while not predicate():
            if time.monotonic() > deadline or self.cut:
                self.cut = self.cut or f"{self._name} waited in vain for {what}"
                raise Cut(self.cut)
            with self._changed:
                self._changed.wait(0.05)

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Run the body at once: a peer has one actor of its own."""
        body()

    def run(self) -> None:
        """Do nothing: the peer's body is its actor."""

    def name_thread(self, thread: object, name: str) -> None:
        """Say which actor a thread of the target is."""
        if isinstance(thread, threading.Thread):
            thread.name = f"{self._name}.{name}"

    def _actor(self) -> str:
        """Name of the current thread; all of them begin with the peer's, so that its death forgets all."""
        thread = threading.current_thread()
        if thread is self._main or thread.name.startswith(f"{self._name}."):
            return self._name if thread is self._main else thread.name
        return f"{self._name}.{thread.name}"

    @property
    def actors(self) -> list[str]:
        """The peer itself."""
        return [self._name]

    @property
    def finished(self) -> list[str]:
        """The peer counts as finished for its own waits: nothing else runs in it."""
        return [self._name]

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, number = self._pipe.recv()
                if kind == "go":
                    self.go.set()
                elif kind == "grant":
                    self._grants.pop(number).set()


class Peer:
    """A forked process whose points pass through this process's gates."""

    def __init__(self, name: str, keeper: Gatekeeper, body: Callable[[Connection], None]) -> None:
        """Fork; `body(pipe)` runs in the child, which then exits."""
        if threading.active_count() > 1:
            names = sorted(t.name for t in threading.enumerate())
            raise RuntimeError(f"a peer must be forked before any thread starts; running: {names}")
        self.name, self._keeper = name, keeper
        self.result: Any = None
        self.error = ""
        self.returncode: int | None = None
        self._pipe, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._pipe.close()
            status = 70
            try:
                body(theirs)
                status = 0
            finally:
                os._exit(status)
        theirs.close()
        self._reader: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Let the child begin; call it after every peer was forked."""
        self._reader = threading.Thread(target=self._serve, name=f"{self.name}.reader", daemon=True)
        self._reader.start()
        self._tell("go", 0)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; SIGKILL is waited for."""
        if self.returncode is not None:
            return  # its number may already be another process's
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            if self._reader is None:  # it was never started: nobody else reads its end
                self._reap()
            self._ended.wait(10)

    def ended(self) -> bool:
        """Tell whether the process has ended and everything it said was read."""
        return self._ended.is_set()

    def _tell(self, kind: str, number: int) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send((kind, number))

    def _serve(self) -> None:
        self._keeper.submit(self.name, "process.start", self.name, {}, lambda _e: None)
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, *rest = self._pipe.recv()
                if kind == "reach":
                    number, actor, point, key, detail = rest
                    self._keeper.submit(actor, point, key, detail, self._granter(number))
                elif kind == "result":
                    self.result = rest[0]
                elif kind == "error":
                    self.error = rest[0]
        self._reap()

    def _reap(self) -> None:
        """Take the exit status; whoever sees `ended` finds the arrivals forgotten and the end traced."""
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._keeper.forget(self.name)
        self._keeper.submit(
            self.name, "process.end", self.name, {"returncode": self.returncode}, lambda _e: None
        )
        self._ended.set()

    def _granter(self, number: int) -> Callable[[Event], None]:
        return lambda _event: self._tell("grant", number)
