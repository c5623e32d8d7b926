"""A stage in a spawned process, with a supervisor that replaces it when it dies."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from omni_verify.pipeline.stages.handle import StageUnavailableError
from omni_verify.pipeline.stages.messages import StageDied, StageEvent, StageReady, StageRequest
from omni_verify.pipeline.stages.process_main import CoreFactory, stage_process_main
from omni_verify.pipeline.stages.wire import (
    AbortCommand,
    EventBatch,
    ReleaseCommand,
    StopCommand,
    SubmitCommand,
    receive,
    send,
)

__all__ = ["MAX_RESTARTS", "RESTART_WINDOW_S", "ProcessStage"]

logger = logging.getLogger(__name__)

MAX_RESTARTS = 5
"""Deaths within `RESTART_WINDOW_S` after which a stage is given up."""
RESTART_WINDOW_S = 60.0
"""Seconds for `MAX_RESTARTS`."""


class ProcessStage:
    """See `StageHandle`. All stages of a pipeline are spawned from one parent.

    Commands for a process that is still starting wait in its pipe. When the process dies, its
    requests are reported lost at once and a successor is started.

    Args:
        factory: builds the stage inside the process; picklable.
        environment: variables of the process, and of each successor, beside the parent's.
    """

    def __init__(
        self, stage_id: int, factory: CoreFactory, environment: Mapping[str, str] | None = None
    ) -> None:
        self._stage_id, self._factory = stage_id, factory
        self._environment = dict(environment or {})
        self._context = multiprocessing.get_context("spawn")
        self._events: deque[StageEvent] = deque()
        self._statistics: Mapping[str, float] = {}
        self._notify: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._closed = self._given_up = False
        self._deaths: deque[float] = deque()
        self._process, self._connection = self._spawn(successor=False)
        self._supervisor = threading.Thread(target=self._supervise, name=f"omni-sup-{stage_id}", daemon=True)
        self._supervisor.start()

    @property
    def stage_id(self) -> int:
        """Position of the stage in the pipeline."""
        return self._stage_id

    @property
    def pid(self) -> int | None:
        """Process id of the current incarnation."""
        return self._process.pid

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the current incarnation accepts work; False after the time or when it is given up."""
        self._ready.wait(timeout_s)
        return self._ready.is_set() and not self._given_up

    def submit(self, request: StageRequest) -> None:
        """Send the admission of a request."""
        if not self.is_alive():
            raise StageUnavailableError(f"stage {self._stage_id} is not available: it ended and stays down")
        self._send(SubmitCommand(request))

    def abort(self, request_ids: Sequence[str]) -> None:
        """Send the end of requests."""
        self._send(AbortCommand(tuple(request_ids)))

    def release(self, request_ids: Sequence[str]) -> None:
        """Send a release."""
        if not self.is_alive():
            raise StageUnavailableError(f"stage {self._stage_id} is not available")
        self._send(ReleaseCommand(tuple(request_ids)))

    def pump(self) -> bool:
        """Do nothing: the stage's own process works."""
        return False

    def poll(self) -> list[StageEvent]:
        """Take what the process has reported."""
        events: list[StageEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def set_notify(self, notify: Callable[[], None]) -> None:
        """Call back, on the supervisor's thread, after each report."""
        self._notify = notify

    def is_alive(self) -> bool:
        """Tell whether the stage works or is being replaced."""
        return not self._closed and not self._given_up

    def statistics(self) -> Mapping[str, float]:
        """Return the latest snapshot of the process."""
        return self._statistics

    def request_stop(self) -> None:
        """Tell the process to stop, without waiting; `close` joins it."""
        with self._lock:
            asked, self._closed = self._closed, True
        if not asked:
            self._send(StopCommand())

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop the process and join it; one that does not end in time is killed. Idempotent."""
        self.request_stop()
        with self._lock:
            process = self._process
        # The supervisor alone reaps: of two threads that wait for one child, one is told that it has none.
        if not wait([process.sentinel], timeout_s):
            logger.error("stage %d did not stop within %g s and is killed", self._stage_id, timeout_s)
            process.kill()
        self._supervisor.join(timeout_s)
        self._connection.close()

    # -- supervision ---------------------------------------------------------------------------

    def _spawn(self, *, successor: bool) -> tuple[SpawnProcess, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=stage_process_main,
            args=(self._stage_id, self._factory, theirs),
            kwargs={"successor": successor},
            name=f"omni-stage-{self._stage_id}",
            daemon=True,
        )
        with _environment(self._environment):
            process.start()
        theirs.close()
        return process, ours

    def _supervise(self) -> None:
        while True:
            self._read_reports(self._connection)
            self._process.join()
            with self._lock:
                if self._closed or self._given_up:
                    break
                self._ready.clear()
                self._give_up_or_replace()
            self._notify()
            if self._given_up:
                break
        self._ready.set()

    def _read_reports(self, connection: Connection) -> None:
        try:
            while True:
                batch = receive(connection)
                if isinstance(batch, EventBatch):
                    self._take(batch)
        except (EOFError, OSError):
            return

    def _take(self, batch: EventBatch) -> None:
        if batch.statistics is not None:
            self._statistics = batch.statistics
        for event in batch.events:
            if isinstance(event, StageReady):
                self._ready.set()
            if isinstance(event, StageDied):
                self._given_up = True
        if batch.events:
            self._events.extend(batch.events)
            self._notify()

    def _give_up_or_replace(self) -> None:
        now = time.monotonic()
        self._deaths.append(now)
        while now - self._deaths[0] > RESTART_WINDOW_S:
            self._deaths.popleft()
        self._given_up = len(self._deaths) > MAX_RESTARTS
        reason = exit_reason(self._process.exitcode)
        logger.error("stage %d ended: %s%s", self._stage_id, reason, "; given up" if self._given_up else "")
        self._events.append(StageDied(self._stage_id, reason, permanent=self._given_up))
        if not self._given_up:
            self._connection.close()
            self._process, self._connection = self._spawn(successor=True)

    def _send(self, message: object) -> None:
        with self._lock:
            try:
                send(self._connection, message)
            except OSError as error:
                # The supervisor reports the death; whoever sent this is told then.
                logger.debug("stage %d: command lost, %s", self._stage_id, error)


_ENVIRONMENT_LOCK = threading.Lock()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Hand variables to the process that starts inside.

    They must be there when its interpreter starts, since libraries read them on import, and multiprocessing
    gives a child nothing but its parent's environment.
    """
    with _ENVIRONMENT_LOCK:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def exit_reason(exitcode: int | None) -> str:
    """Say in words how a process ended."""
    if exitcode is None:
        return "its pipe closed"
    return f"killed by signal {-exitcode}" if exitcode < 0 else f"exit code {exitcode}"
