"""The orchestrator: one thread, one loop, every request's way through the stages.

`step` does one round: take commands, pump the stages of this thread, poll all stages, route what
they produced, end what is due. A caller may drive it step by step, or let `run` do it in a thread
of its own; nothing else touches its state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from omni_verify.errors import OmniVerifyError, UsageError
from omni_verify.pipeline.orchestration.accumulation import OutputAccumulator
from omni_verify.pipeline.orchestration.messages import ErrorMessage, OutputMessage, RequestOutput, Sink
from omni_verify.pipeline.orchestration.prewarm import initial_request, prewarm_request
from omni_verify.pipeline.orchestration.release import ReleaseBroadcast
from omni_verify.pipeline.orchestration.results import complete_result, empty_final_output
from omni_verify.pipeline.orchestration.state import (
    RequestState,
    StageInfo,
    is_lost_with,
    is_request_finished,
    may_release,
    must_hold_final,
    needed_outputs,
    should_forward,
    stages_left_running,
    stages_to_abort,
    stages_to_prewarm,
    upstream_without_consumer,
)
from omni_verify.pipeline.stages.handle import StageHandle, StageUnavailableError
from omni_verify.pipeline.stages.messages import (
    FinishReason,
    StageDied,
    StageEvent,
    StageOutput,
    StageReady,
    StageRequest,
    TransferReleased,
    TransferSent,
)
from omni_verify.pipeline.stages.params import SamplingParams

__all__ = ["FINAL_OUTPUT_HOLD_S", "DuplicateRequestError", "Orchestrator"]

logger = logging.getLogger(__name__)

FINAL_OUTPUT_HOLD_S = 10.0
"""Seconds that a complete result waits for a stage whose finish was lost; then it is sent (W27)."""
IDLE_WAIT_S = 0.05
"""Longest sleep of `run` between two rounds, so that deadlines are looked at even without events."""


class DuplicateRequestError(UsageError):
    """The id belongs to a request that is live, or whose objects are not yet released (W27, I38c)."""


class Orchestrator:
    """Route requests through stages; the methods without a note may be called from its own thread only.

    Args:
        handles: one handle a stage, in stage order.
        stages: what the resolved configuration says of each stage, in the same order.
        poll_order: gives the order in which a round polls the stages; a test may permute it.
    """

    def __init__(
        self,
        handles: Sequence[StageHandle],
        stages: Sequence[StageInfo],
        *,
        poll_order: Callable[[Sequence[int]], Sequence[int]] | None = None,
        hold_timeout_s: float = FINAL_OUTPUT_HOLD_S,
    ) -> None:
        if [handle.stage_id for handle in handles] != [stage.stage_id for stage in stages]:
            raise UsageError("handles and stages must list the same stage ids in the same order")
        self.handles = list(handles)
        self.stages = list(stages)
        self.async_chunk = any(stage.async_chunk for stage in stages)
        self.hold_timeout_s = hold_timeout_s
        self.requests: dict[str, RequestState] = {}
        self.releases = ReleaseBroadcast(self.handles if len(self.handles) > 1 else ())
        self.counters: dict[str, int] = {
            "requests": 0,
            "finished": 0,
            "aborted": 0,
            "failed": 0,
            "dropped_outputs": 0,
        }
        self._poll_order = poll_order or (lambda ids: ids)
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        for handle in self.handles:
            handle.set_notify(self._wake.set)

    # -- commands ------------------------------------------------------------------------------

    def call_soon(self, command: Callable[[], None]) -> None:
        """Have `command` run in the orchestrator's thread; safe from any thread, never waits."""
        self._commands.append(command)
        self._wake.set()

    def add_request(
        self,
        request_id: str,
        prompt: Mapping[str, Any],
        sampling_params: Sequence[SamplingParams],
        sink: Sink,
        *,
        modalities: Collection[str] | None = None,
        streaming_input: bool = False,
    ) -> None:
        """Admit one request, submit it to stage 0 and place placeholders where chunks will arrive.

        Args:
            prompt: ``prompt_token_ids`` and, for later stages, ``additional_information``.
            sampling_params: one a stage.
            sink: receives every message of the request, in the orchestrator's thread.

        Raises:
            DuplicateRequestError: the id is live or still being released.
            UsageError: wrong parameters or an unusable id; nothing has been started.
        """
        check_admission(self, request_id, sampling_params)
        final_stage_id, outputs = needed_outputs(self.stages, modalities)
        state = RequestState(
            request_id,
            prompt,
            sampling_params,
            final_stage_id,
            outputs,
            sink,
            streaming_input=streaming_input,
        )
        for stage in self.stages[: final_stage_id + 1]:
            kind = sampling_params[stage.stage_id].output_kind
            state.accumulators[stage.stage_id] = OutputAccumulator(kind, stage.detokenize)
        self.requests[request_id] = state
        self.counters["requests"] += 1
        if self._submit(state, initial_request(state)) and self.async_chunk:
            self._prewarm(state)

    def abort(self, request_id: str) -> bool:
        """End a request in every stage at once; tell whether it was live. Its sink hears nothing more."""
        state = self.requests.get(request_id)
        if state is None:
            return False
        self.counters["aborted"] += 1
        self._end(state, complete=False)
        return True

    # -- the loop ------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one round; tell whether anything happened."""
        progress = False
        for _ in range(len(self._commands)):
            self._run_command(self._commands.popleft())
            progress = True
        for stage_id in self._poll_order(range(len(self.handles))):
            handle = self.handles[stage_id]
            progress |= handle.pump()
            for event in handle.poll():
                self._on_event(event)
                progress = True
        self._expire_held()
        self.releases.pump()
        return progress

    def run(self) -> None:
        """Step until `stop`, sleeping while there is nothing to do."""
        while not self._stop.is_set():
            self._wake.clear()
            try:
                progress = self.step()
            except Exception:
                # One broken round must not end every client's request.
                logger.exception("orchestrator round failed")
                progress = False
            if not progress:
                self._wake.wait(IDLE_WAIT_S)

    def stop(self) -> None:
        """Make `run` return after its current round; safe from any thread."""
        self._stop.set()
        self._wake.set()

    def quiescent(self) -> bool:
        """Tell whether no request is live and no release is owed (the premise of I51)."""
        return not self.requests and not self._commands and self.releases.idle()

    # -- events --------------------------------------------------------------------------------

    def _run_command(self, command: Callable[[], None]) -> None:
        try:
            command()
        except Exception:
            logger.exception("orchestrator command failed")

    def _on_event(self, event: StageEvent) -> None:
        match event:
            case StageOutput():
                self._on_output(event)
            case TransferReleased():
                self.releases.confirm(event)
            case TransferSent(stage_id=stage_id, request_id=request_id):
                if request_id in self.requests:
                    self.requests[request_id].unsent_stage_ids.discard(stage_id)
            case StageDied():
                self._on_stage_died(event)
            case StageReady():
                self.releases.resume_stage(event.stage_id)

    def _on_output(self, output: StageOutput) -> None:
        state = self.requests.get(output.request_id)
        if state is None:
            self.counters["dropped_outputs"] += 1
            logger.debug("stage %d: output of unknown request %s dropped", output.stage_id, output.request_id)
            return
        if output.finish_reason is FinishReason.ERROR:
            self._fail(state, output.error or "the stage gave no reason", stage_id=output.stage_id)
            return
        try:
            self._route(state, output)
        except (UsageError, ValueError) as error:
            self._fail(state, str(error), status_code=400, stage_id=output.stage_id)
        except Exception as error:
            logger.exception("routing of %s failed", state.request_id)
            self._fail(state, f"{type(error).__name__}: {error}", stage_id=output.stage_id)

    def _route(self, state: RequestState, output: StageOutput) -> None:
        stage = self.stages[output.stage_id]
        ended = output.finished and not output.segment_finished
        logger.debug(
            "%s: output of stage %d, finished=%s", state.request_id, output.stage_id, output.finished
        )
        if ended:
            state.finished_stage_ids.add(stage.stage_id)
            if output.unsent:
                state.unsent_stage_ids.add(stage.stage_id)
            if stage.stage_id in state.final_output_stage_ids:
                state.finished_final_output_stage_ids.add(stage.stage_id)
        processed = state.accumulators[stage.stage_id].add(output)
        if processed is not None and stage.stage_id in state.final_output_stage_ids:
            self._emit(state, stage, processed, request_finished=ended and is_request_finished(state))
        if should_forward(state, output, self.stages, async_chunk=self.async_chunk):
            self._forward(state, processed, output)
        idle = (
            upstream_without_consumer(state, output, self.stages, async_chunk=self.async_chunk)
            if ended
            else []
        )
        for stage_id in idle:
            self._abort_on(stage_id, state)
            state.finished_stage_ids.add(stage_id)
        if ended and may_release(state, ended=False):
            self.releases.add(state.request_id)
        if state.pending_final_output is not None and not must_hold_final(
            state, async_chunk=self.async_chunk
        ):
            self._complete(state, state.pending_final_output)

    def _emit(
        self, state: RequestState, stage: StageInfo, output: RequestOutput, *, request_finished: bool
    ) -> None:
        message = OutputMessage(state.request_id, stage.stage_id, str(stage.final_output_type), output)
        if request_finished:
            # `_route` sends it as soon as every submitted stage has reported.
            state.pending_final_output, state.held_since = message, time.monotonic()
        else:
            state.sink(message)

    def _complete(self, state: RequestState, message: OutputMessage) -> None:
        message.finished = True
        state.pending_final_output = None
        self.counters["finished"] += 1
        self._end(state, complete=True)
        state.sink(message)

    def _expire_held(self) -> None:
        now = time.monotonic()
        for state in list(self.requests.values()):
            message, since = state.pending_final_output, state.held_since
            if message is not None and since is not None and now - since > self.hold_timeout_s:
                logger.warning(
                    "%s: stages %s never reported their end", state.request_id, stages_left_running(state)
                )
                self._complete(state, message)

    def _on_stage_died(self, event: StageDied) -> None:
        """Fail every request that is on the dead stage, still has to pass it or has lost chunks with it."""
        (self.releases.drop_stage if event.permanent else self.releases.hold_stage)(event.stage_id)
        for state in list(self.requests.values()):
            if is_lost_with(state, event.stage_id):
                self._fail(state, f"stage {event.stage_id} died: {event.reason}", stage_id=event.stage_id)

    # -- actions -------------------------------------------------------------------------------

    def _submit(self, state: RequestState, request: StageRequest, stage_id: int = 0) -> bool:
        state.stage_submit_ts[stage_id] = time.monotonic()
        logger.debug("%s: submitted to stage %d", state.request_id, stage_id)
        try:
            self.handles[stage_id].submit(request)
        except StageUnavailableError as error:
            self._fail(state, str(error), status_code=503, stage_id=stage_id)
            return False
        return True

    def _prewarm(self, state: RequestState) -> None:
        chosen = stages_to_prewarm(state, self.stages)
        if chosen and not state.prompt.get("prompt_token_ids"):
            self._fail(state, "the prompt has no tokens, so no placeholder can be sized", status_code=400)
            return
        for stage_id in chosen:
            if not self._submit(state, prewarm_request(state, self.stages[stage_id]), stage_id):
                return

    def _forward(self, state: RequestState, processed: RequestOutput | None, output: StageOutput) -> None:
        nxt = self.stages[output.stage_id + 1]
        if nxt.input_processor is None:
            raise OmniVerifyError(f"stage {nxt.stage_id} takes complete results but names no input processor")
        if processed is None:
            return
        requests = nxt.input_processor([complete_result(state, processed)], state)
        if not requests and output.finished:
            self._complete(state, empty_final_output(state, self.stages))
        for request in requests:
            if not self._submit(state, request, nxt.stage_id):
                return

    def _abort_on(self, stage_id: int, state: RequestState) -> None:
        try:
            self.handles[stage_id].abort([state.request_id])
        except StageUnavailableError as error:
            logger.debug("abort of %s on stage %d: %s", state.request_id, stage_id, error)

    def _fail(
        self, state: RequestState, message: str, *, status_code: int = 500, stage_id: int | None = None
    ) -> None:
        if self.requests.get(state.request_id) is not state:
            return
        self.counters["failed"] += 1
        self._end(state, complete=False)
        state.sink(ErrorMessage(state.request_id, message, status_code, stage_id))

    def _end(self, state: RequestState, *, complete: bool) -> None:
        """Drop the request everywhere: abort where it may still act, then release what is left."""
        logger.debug("%s: ended, complete=%s", state.request_id, complete)
        for stage_id in stages_to_abort(state, complete=complete):
            self._abort_on(stage_id, state)
        del self.requests[state.request_id]
        if may_release(state, ended=True):
            self.releases.add(state.request_id)


def check_admission(
    orchestrator: Orchestrator, request_id: str, sampling_params: Sequence[SamplingParams]
) -> None:
    """Refuse what no stage could serve, before any stage hears of it.

    Raises:
        DuplicateRequestError: the id is live, or its transport objects are still being released.
        UsageError: not exactly one set of sampling parameters a stage.
    """
    if request_id in orchestrator.requests:
        raise DuplicateRequestError(
            f"request id {request_id!r} is in use; wait for its end or choose another id"
        )
    if orchestrator.releases.is_releasing(request_id):
        raise DuplicateRequestError(
            f"request id {request_id!r} ended a moment ago and its data is still being released; try again"
        )
    if len(sampling_params) != len(orchestrator.stages):
        raise UsageError(
            f"expected sampling parameters for {len(orchestrator.stages)} stages, got {len(sampling_params)}"
        )
