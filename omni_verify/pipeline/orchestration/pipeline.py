"""The running pipeline: stages, the orchestrator's thread, and requests from any thread."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from omni_verify.contracts.keys import wake_directory
from omni_verify.errors import OmniVerifyError, TargetUnusableError, UsageError
from omni_verify.pipeline.config.stage_config import StageConfig
from omni_verify.pipeline.orchestration.assembly import build_handle, stage_infos, stage_specs
from omni_verify.pipeline.orchestration.messages import ClientMessage, ErrorMessage, OutputMessage, Sink
from omni_verify.pipeline.orchestration.orchestrator import (
    FINAL_OUTPUT_HOLD_S,
    DuplicateRequestError,
    Orchestrator,
)
from omni_verify.pipeline.stages.handle import StageHandle
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams
from omni_verify.pipeline.stages.process import ProcessStage
from omni_verify.pipeline.stages.reclaim import remove_what_the_dead_left

__all__ = ["Pipeline", "RequestFailedError", "default_params"]

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 330.0
"""Seconds until every stage process must have built its model; importing vLLM may take minutes."""


class RequestFailedError(OmniVerifyError):
    """A request ended with an error; `status_code` is the HTTP status that fits."""

    def __init__(self, error: ErrorMessage) -> None:
        super().__init__(error.message)
        self.status_code, self.stage_id = error.status_code, error.stage_id


class Pipeline:
    """All stages of one model, started; use as a context manager, or `close` it.

    Args:
        configs: the resolved stages.
        mode: ``"inline"``, ``"thread"`` or ``"process"``; all give the same audio for the same seed.
        hold_timeout_s: see `Orchestrator`.
        options: further arguments of `stage_specs`.

    Raises:
        TargetUnusableError: a stage process did not come up.
    """

    def __init__(
        self,
        configs: Sequence[StageConfig],
        *,
        mode: str = "process",
        hold_timeout_s: float = FINAL_OUTPUT_HOLD_S,
        **options: Any,
    ) -> None:
        self.configs, self.mode = tuple(configs), mode
        self.wakeup_scope = options.pop("wakeup_scope", None) or f"omni-{os.getpid()}-{uuid.uuid4().hex}"
        self.handles: list[StageHandle] = []
        self._thread: threading.Thread | None = None
        try:
            for spec in stage_specs(self.configs, wakeup_scope=self.wakeup_scope, **options):
                self.handles.append(build_handle(spec, mode))
            wait_started(self.handles)
            self.infos = stage_infos(self.configs)
            self.orchestrator = Orchestrator(self.handles, self.infos, hold_timeout_s=hold_timeout_s)
        except BaseException:
            self._close_handles()
            raise
        if mode != "inline":
            self._thread = threading.Thread(
                target=self.orchestrator.run, name="omni-orchestrator", daemon=True
            )
            self._thread.start()

    # -- requests ------------------------------------------------------------------------------

    def submit(
        self,
        request_id: str,
        prompt: Mapping[str, Any],
        params: Sequence[SamplingParams],
        sink: Sink,
        *,
        modalities: Collection[str] | None = None,
    ) -> None:
        """Hand over one request from any thread; a refusal arrives at the sink as an `ErrorMessage`."""

        def admit() -> None:
            try:
                self.orchestrator.add_request(request_id, prompt, params, sink, modalities=modalities)
            except DuplicateRequestError as error:
                sink(ErrorMessage(request_id, str(error), 409))
            except (UsageError, ValueError) as error:
                sink(ErrorMessage(request_id, str(error), 400))

        self.orchestrator.call_soon(admit)

    def abort(self, request_id: str) -> None:
        """End a request in all stages; safe from any thread, returns at once."""
        self.orchestrator.call_soon(lambda: void(self.orchestrator.abort(request_id)))

    def generate(
        self,
        request_id: str,
        prompt: Mapping[str, Any],
        params: Sequence[SamplingParams] | None = None,
        *,
        modalities: Collection[str] | None = None,
        timeout_s: float = 120.0,
    ) -> Iterator[OutputMessage]:
        """Run one request and yield its outputs; leaving the loop early aborts it.

        Raises:
            RequestFailedError: the request failed, or brought nothing for `timeout_s`.
        """
        inbox: queue.SimpleQueue[ClientMessage] = queue.SimpleQueue()
        chosen = params or self.params(RequestOutputKind.DELTA)
        self.submit(request_id, prompt, chosen, inbox.put, modalities=modalities)
        done = False
        try:
            while not done:
                message = self._next(inbox, request_id, timeout_s)
                if isinstance(message, ErrorMessage):
                    done = True
                    raise RequestFailedError(message)
                done = message.finished
                yield message
        finally:
            if not done:
                self.abort(request_id)
                if self._thread is None:
                    self.orchestrator.step()

    def params(self, kind: RequestOutputKind = RequestOutputKind.DELTA) -> list[SamplingParams]:
        """Return fresh default parameters, one set a stage, with the given output kind."""
        chosen = [default_params(config) for config in self.configs]
        for each in chosen:
            each.output_kind = kind
        return chosen

    # -- state ---------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Tell whether the orchestrator runs and every stage works or is being replaced."""
        thread_ok = self._thread is None or self._thread.is_alive()
        return thread_ok and all(handle.is_alive() for handle in self.handles)

    def wait_quiescent(self, timeout_s: float = 30.0) -> bool:
        """Wait until no request is live and every release is confirmed (the premise of I51)."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._thread is None:
                self.orchestrator.step()
                if self.orchestrator.quiescent():
                    return True
            elif self._ask_quiescent(deadline):
                return True
        return False

    def statistics(self) -> dict[str, float]:
        """Return the orchestrator's counters and every stage's, prefixed with its number."""
        values: dict[str, float] = {name: float(count) for name, count in self.orchestrator.counters.items()}
        values |= self.orchestrator.releases.statistics()
        for handle in self.handles:
            values |= {f"stage{handle.stage_id}_{name}": v for name, v in handle.statistics().items()}
        return values

    def close(self) -> None:
        """Abort what is live, stop every stage and reclaim its objects; idempotent."""
        if self._thread is not None:
            self.orchestrator.call_soon(lambda: abort_all(self.orchestrator))
            self.orchestrator.call_soon(self.orchestrator.stop)
            self._thread.join(10.0)
            self._thread = None
        self._close_handles()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        self.close()

    # -- parts ---------------------------------------------------------------------------------

    def _next(
        self, inbox: queue.SimpleQueue[ClientMessage], request_id: str, timeout_s: float
    ) -> ClientMessage:
        deadline = time.monotonic() + timeout_s
        try:
            if self._thread is not None:
                return inbox.get(timeout=timeout_s)
            while time.monotonic() < deadline:
                with contextlib.suppress(queue.Empty):
                    return inbox.get_nowait()
                self.orchestrator.step()
        except queue.Empty:
            pass
        raise RequestFailedError(ErrorMessage(request_id, f"no output within {timeout_s:g} s", 504))

    def _ask_quiescent(self, deadline: float) -> bool:
        """Ask on the orchestrator's thread, so that its state is a consistent snapshot."""
        answer: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.orchestrator.call_soon(lambda: answer.put(self.orchestrator.quiescent()))
        try:
            return answer.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return False

    def _close_handles(self) -> None:
        # Any order will do: whatever a stage puts while it stops, it reclaims by itself.
        for handle in self.handles:
            if isinstance(handle, ProcessStage):
                handle.request_stop()
        for handle in self.handles:
            try:
                handle.close()
            except Exception:
                logger.exception("stage %d did not close cleanly", handle.stage_id)
        # A stage that was killed could not remove its own.
        remove_what_the_dead_left(wake_directory(os.getuid(), os.getpid(), self.wakeup_scope))


def default_params(config: StageConfig) -> SamplingParams:
    """Return a fresh copy of a stage's default parameters."""
    return SamplingParams.from_mapping(config.default_sampling_params)


def wait_started(handles: Sequence[StageHandle]) -> None:
    """Wait until every stage process has built its model.

    Raises:
        TargetUnusableError: one did not, in time or at all.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    for handle in handles:
        if isinstance(handle, ProcessStage) and not handle.wait_ready(max(0.0, deadline - time.monotonic())):
            raise TargetUnusableError(f"stage {handle.stage_id} did not start; its log says why")


def abort_all(orchestrator: Orchestrator) -> None:
    """End every live request and tell its client."""
    for request_id, state in list(orchestrator.requests.items()):
        orchestrator.abort(request_id)
        state.sink(ErrorMessage(request_id, "the server is shutting down", 503))


def void(_value: object) -> None:
    """Drop a result."""
