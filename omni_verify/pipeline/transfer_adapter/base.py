"""The two background loops of a stage's transfers, and the failures they report.

Three threads touch an adapter: **S** (the scheduler, every public verb), **V** (``save_thread``, all puts and
cleanups) and **R** (``recv_thread``, all gets). No adapter lock is held across connector I/O or a processor
(I37).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from omni_verify.pipeline.transfer_adapter.arrival import ArrivalWait

__all__ = ["IDLE_WAIT_S", "JOIN_TIMEOUT_S", "OmniTransferAdapterBase"]

logger = logging.getLogger(__name__)

IDLE_WAIT_S = 0.1
"""Longest sleep of an idle loop in seconds; a lost notification costs at most this."""

DRAIN_BATCH = 64
"""Items between two rounds of periodic work, so that a busy queue cannot starve it."""

JOIN_TIMEOUT_S = 1.0
"""How long ``shutdown`` waits for each loop; one that is still inside the connector undoes its own work."""


class OmniTransferAdapterBase:
    """Own the send and receive loops; subclasses say what one item is.

    The constructor starts the threads, so a subclass creates its state (``connector`` included) first.
    """

    connector: Any = None

    def __init__(self, config: Any) -> None:
        self.config = config
        self._pending_load_reqs: deque[Any] = deque()
        self._finished_load_reqs: set[str] = set()
        self._pending_save_reqs: deque[Any] = deque()
        self._finished_save_reqs: set[str] = set()

        self.stop_event = threading.Event()
        self._recv_cond = threading.Condition()
        self._save_cond = threading.Condition()
        self._send_failures: dict[str, str] = {}
        self._send_failure_lock = threading.Lock()
        self._receive_failures: dict[str, str] = {}
        self._receive_failure_lock = threading.Lock()
        self._arrival = ArrivalWait(self)

        self.recv_thread = threading.Thread(target=self.recv_loop, name="omni-recv", daemon=True)
        self.save_thread = threading.Thread(target=self.save_loop, name="omni-save", daemon=True)
        self.recv_thread.start()
        self.save_thread.start()

    @classmethod
    def create_connector(cls, model_config: Any) -> Any:
        """Build the connector of one stage; subclasses know its configuration."""
        raise NotImplementedError

    # -- receive loop (R) --------------------------------------------------------------------------

    def recv_loop(self) -> None:
        """Poll every registered entry once a pass; sleep when a pass made no progress.

        The arrival counter is read before the pass, so an arrival during the pass ends the wait at once
        (I25).
        """
        while not self.stop_event.is_set():
            arrival = self._arrival.snapshot()
            if self._poll_pass():
                self._arrival.progressed()
            else:
                self._arrival.wait(arrival)

    def _poll_pass(self) -> bool:
        progress = False
        for _ in range(len(self._pending_load_reqs)):
            if not self._pending_load_reqs or self.stop_event.is_set():
                break
            entry = self._pending_load_reqs.popleft()
            done = False
            try:
                done = bool(self._poll_single_request(entry))
            except Exception as error:  # one bad entry must not stop the others (I37b)
                logger.warning("Polling %s failed: %s", getattr(entry, "request_id", entry), error)
            if done:
                progress = True
            else:
                self._pending_load_reqs.append(entry)
        return progress

    # -- save loop (V) -----------------------------------------------------------------------------

    def save_loop(self) -> None:
        """Run queued items in order, then the periodic work, until stopped (I30, I37b, W11).

        On the way out this thread undoes what it put: a put that was in flight when the adapter was shut down
        is known to nobody else (W10).
        """
        try:
            while not self.stop_event.is_set():
                self._drain_save_queue()
                self._contain(self._run_periodic_work)
                self._contain(self._reap_consumed)
                timeout = self._save_idle_timeout()
                with self._save_cond:
                    if not self._pending_save_reqs and not self.stop_event.is_set():
                        self._save_cond.wait(timeout=timeout)
        finally:
            self._contain(self._undo_after_stop)
            self._contain(self._close_connector)

    def _drain_save_queue(self) -> None:
        for _ in range(DRAIN_BATCH):
            if not self._pending_save_reqs or self.stop_event.is_set():
                break
            task = self._pending_save_reqs.popleft()
            try:
                self._send_single_request(task)
            except Exception as error:
                failed = getattr(task.get("request"), "request_id", None) if isinstance(task, dict) else None
                logger.error("Send gave up for %s: %s", failed, error)
                self.record_send_failure(failed, f"{type(error).__name__}: {error}")

    def _contain(self, work: Callable[[], None]) -> None:
        """Run one step of a loop; an exception of the connector is logged, the loop lives on (I37b, W11)."""
        try:
            work()
        except Exception as error:
            logger.error("%s failed: %s: %s", getattr(work, "__name__", work), type(error).__name__, error)

    def _reap_consumed(self) -> None:
        if self.connector is not None:
            self.connector.reap_consumed()

    def _run_periodic_work(self) -> None:
        """Do what is due besides the queue; called by V between two drains."""

    def _save_idle_timeout(self) -> float:
        """Return how long V may sleep, in seconds."""
        return IDLE_WAIT_S

    def _undo_after_stop(self) -> None:
        """Reclaim what this adapter put; the last thing V does."""

    # -- failure records (any thread) --------------------------------------------------------------

    def record_send_failure(self, request_id: str | None, reason: str) -> None:
        """Note that a chunk of ``request_id`` (internal) will never be delivered; the first reason wins."""
        if request_id is None:
            return
        with self._send_failure_lock:
            self._send_failures.setdefault(request_id, reason)

    def collect_failed_send_request_ids(self) -> dict[str, str]:
        """Take the failed sends, internal id to reason; the scheduler ends them with FINISHED_ERROR (W31)."""
        with self._send_failure_lock:
            failures, self._send_failures = self._send_failures, {}
        return failures

    def record_receive_failure(self, request_id: str, reason: str) -> None:
        """Note that the stream that feeds ``request_id`` cannot continue; the first reason wins."""
        with self._receive_failure_lock:
            self._receive_failures.setdefault(request_id, reason)

    def forget_receive_failure(self, request_id: str) -> None:
        """Drop the record of a request that has ended: it must not end the next one of its id."""
        with self._receive_failure_lock:
            self._receive_failures.pop(request_id, None)

    def collect_failed_receive_request_ids(self) -> dict[str, str]:
        """Take the failed receives, internal id to reason; the scheduler ends them with FINISHED_ERROR."""
        with self._receive_failure_lock:
            failures, self._receive_failures = self._receive_failures, {}
        return failures

    # -- hooks of subclasses -----------------------------------------------------------------------

    def _poll_single_request(self, entry: Any) -> bool:
        """Poll the connector once; True when the entry needs no further poll."""
        raise NotImplementedError

    def _send_single_request(self, task: dict[str, Any]) -> None:
        """Run one item of the save queue."""
        raise NotImplementedError

    def load_async(self, request: Any) -> None:
        """Register a request for the receive loop."""
        raise NotImplementedError

    def save_async(self, *args: Any, **kwargs: Any) -> None:
        """Queue one chunk for the save loop."""
        raise NotImplementedError

    # -- end ---------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Stop both loops and close the connector; idempotent, returns within two join timeouts.

        A thread that is inside the connector is not waited for any longer than :data:`JOIN_TIMEOUT_S`. The
        connector is closed then, and the save thread undoes its put and closes once more when it comes back
        (W10, I53).
        """
        self.stop_event.set()
        for condition in (self._recv_cond, self._save_cond):
            with condition:
                condition.notify_all()
        for thread in (self.recv_thread, self.save_thread):
            if thread is not threading.current_thread():
                thread.join(timeout=JOIN_TIMEOUT_S)
        self._contain(self._close_connector)

    def _close_connector(self) -> None:
        if self.connector is not None:
            self.connector.close()
