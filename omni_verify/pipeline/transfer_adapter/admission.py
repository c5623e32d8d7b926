"""The sending side's verbs on the scheduler thread: admit a chunk, end a stream, release an id.

None of them touches the connector or waits for a thread that does (I29).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable
from typing import Any

from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.transfer_adapter.generation import SenderGeneration
from omni_verify.pipeline.transfer_adapter.sender_state import SenderState

__all__ = ["SenderAdmission"]

logger = logging.getLogger(__name__)


class SenderAdmission(SenderState):
    """Decide on S which chunk joins which generation."""

    custom_process_next_stage_input_func: Any = None

    # -- admission ---------------------------------------------------------------------------------

    def save_async(
        self,
        multimodal_output: Any = None,
        request: Any = None,
        is_segment_finished: bool = False,  # noqa: FBT001 - vllm-omni's signature
        new_token_ids: Iterable[int] | None = None,
        confirmed_num_computed_tokens: int | None = None,
        segment_generation: int | None = None,
        force_request_finished: bool = False,  # noqa: FBT001 - vllm-omni's signature
    ) -> None:
        """Queue one step's output of ``request`` for the next stage; V builds the payload and puts it.

        A refusal is recorded as a send failure of the request, never silent (I32): an ended generation of the
        id is still draining, a release is pending (W9), the request has been retired (W25), the stream has
        failed (W7), or the adapter is shut down. Two calls are dropped without a record because nothing is
        lost: a late call of an earlier segment, and the replay of a step after a preemption (below the
        watermark). A request that lost its first chunk so gets no later one through either: else its stream
        would begin in the middle and end cleanly (I36).

        Args:
            multimodal_output: this step's output, flat or nested, or None.
            request: the scheduler's request; its mutable containers are copied for the processor.
            is_segment_finished: this output ends an input segment of a resumable request.
            new_token_ids: the tokens of this step, taken before the scheduler changes the request.
            confirmed_num_computed_tokens: committed tokens; computed from the request by default.
            segment_generation: segment number; by default the request's ``_omni_segment_generation``, else 0.
            force_request_finished: this is the terminal although the request has no final status yet (a
                parked resumable session that ends).
        """
        self._drain_receiver_inbox()
        if self._nothing_downstream(request):
            return
        is_finished = bool(force_request_finished or (request.is_finished() and not request.resumable))
        if confirmed_num_computed_tokens is None:
            confirmed_num_computed_tokens = _confirmed_tokens(request)
        has_processor = self.custom_process_next_stage_input_func is not None
        task = {
            "multimodal_output": multimodal_output,
            "request": _snapshot(request) if has_processor else request,
            "owner": request,
            "is_finished": is_finished,
            "is_segment_finished": is_segment_finished,
            "new_token_ids": tuple(int(token) for token in (new_token_ids or ())),
            "segment_generation": _segment_number(request, segment_generation),
        }
        with self._sender_state_lock:
            refusal = self._refusal_locked(request, is_finished, forced=force_request_finished)
            if refusal is None:
                self._admit_locked(task, confirmed_num_computed_tokens)
        if refusal is not None:
            logger.error("Refused a chunk of %r: %s", request.external_req_id, refusal)
            self.record_send_failure(request.request_id, refusal)

    def _nothing_downstream(self, request: Any) -> bool:
        """Tell whether no later stage serves the request: then even a terminal would stay unread (W19)."""
        final_stage = getattr(request, "final_stage_id", None)
        return final_stage is not None and int(final_stage) <= int(self.connector.stage_id)

    def _refusal_locked(self, request: Any, is_finished: bool, *, forced: bool) -> str | None:  # noqa: FBT001
        ext = request.external_req_id
        generation = self._sender_tokens.get(ext)
        if self.stop_event.is_set():
            return "the transfer adapter is shut down"
        if generation is not None and generation.owner is not request and generation.is_ending:
            # The id is used again while its last request is aborted, failed, or its terminal still queued.
            self._mark_retired(request)
            return "previous sender generation is still draining"
        if generation is not None and generation.failure is not None:
            if is_finished and not generation.ended:
                generation.ended = True
                self._settle_failed_locked(generation)
            return generation.failure
        if generation is not None and generation.cancelled:
            self._mark_retired(request)
            return "previous sender generation is still draining"
        if ext in self._pending_releases:
            self._mark_retired(request)
            return "the release of the previous stream of this id is pending"
        aborted = request.status == RequestStatus.FINISHED_ABORTED and not forced
        if self._is_retired(request) or (generation is None and aborted):
            return "the request has already been retired on this stage"
        return None

    def _admit_locked(self, task: dict[str, Any], confirmed: int) -> None:
        """Append the task to the stream of its id, which begins here if there is none.

        Segment numbers are read and advanced under the same lock as the queue, so a late call of an old
        segment can neither pass the test nor restore the old watermark (W14).
        """
        request, segment = task["owner"], task["segment_generation"]
        ext, is_boundary = request.external_req_id, task["is_segment_finished"]
        if segment < self._segment_generation.get(ext, segment):
            logger.warning("Dropped a late chunk of %r: segment %d has ended", ext, segment)
            return
        if not is_boundary and confirmed < self.requests_num_chunks_sent.get(ext, 0):
            logger.debug("Dropped a replayed step of %r at %d tokens", ext, confirmed)
            if not task["is_finished"]:
                return
            task["multimodal_output"] = None  # its data went out already; the end of the stream did not
        generation = self._sender_tokens.get(ext)
        if generation is None:
            generation = self._sender_tokens[ext] = SenderGeneration(ext, request)
        generation.owner = request
        self._segment_generation[ext] = segment
        self.requests_num_chunks_sent[ext] = confirmed
        if task["is_finished"]:
            generation.terminal_pending = True
        if is_boundary:
            # Only a request that carries a counter can catch up with an advanced one: advancing for the
            # others would starve the stream (vllm-omni#6816).
            counted = getattr(request, "_omni_segment_generation", None) is not None
            self._segment_generation[ext] = segment + 1 if counted else segment
            self.requests_num_chunks_sent.pop(ext, None)
        task["sender_token"] = generation
        self._queue_item_locked(task)

    # -- end of a stream ---------------------------------------------------------------------------

    def cleanup_sender(self, external_req_id: str) -> None:
        """End the stream of this id and give its state back; idempotent, never waits for I/O (I29).

        A queued terminal still goes out first, with the data in front of it (I34). V finishes the retirement
        when a put is in flight. Keys are reclaimed unless the terminal was put with success (I31, I33, I35).
        """
        self._drain_receiver_inbox()
        self._end_sender(external_req_id, aborted=False)

    def _end_sender(self, ext: str, *, aborted: bool) -> None:
        with self._sender_state_lock:
            generation = self._sender_tokens.get(ext)
            if generation is None:
                self._clear_sender_state_locked(ext)
                return
            generation.cancelled = True
            generation.aborted |= aborted
            self._mark_retired(generation.owner)
            if generation.failure is not None:
                generation.ended = True
                self._settle_failed_locked(generation)
            elif not (generation.in_flight or generation.terminal_pending):
                self._retire_locked(generation, keep_terminal=False)

    def release_shm_resources(self, request_id: str) -> None:
        """Reclaim what the ended stream of a request left unread; every stage is done with the request (I50).

        Fenced by generation (W9). A draining stream is reclaimed when it retires, its terminal included. A
        live stream is newer than the release, or the release is premature: it is left alone, and what an
        older stream left was reclaimed before its first put. While the release is queued, ``save_async`` of
        the id is refused, so it runs before any put of a new generation.
        """
        self._drain_receiver_inbox()
        if not self._can_reclaim:
            return
        ext = self._external_id_of(request_id)
        with self._sender_state_lock:
            generation = self._sender_tokens.get(ext)
            if generation is None:
                self._queue_release_locked(ext)
            elif generation.failure is not None and (generation.ended or generation.cancelled):
                generation.release_requested = True
                self._settle_failed_locked(generation)
            elif generation.failure is None and generation.cancelled:
                generation.release_requested = True
            else:
                logger.warning("Ignored the release of %r: a stream of this id is live", ext)

    # -- parts of other rooms ----------------------------------------------------------------------

    def _settle_failed_locked(self, generation: SenderGeneration) -> None:
        raise NotImplementedError

    def _drain_receiver_inbox(self) -> None:
        raise NotImplementedError

    def _external_id_of(self, request_id: str) -> str:
        raise NotImplementedError


def _confirmed_tokens(request: Any) -> int:
    """Return the committed tokens: async scheduling counts placeholders before their tokens exist."""
    placeholders = int(getattr(request, "num_output_placeholders", 0) or 0)
    return max(0, int(getattr(request, "num_computed_tokens", 0) or 0) - placeholders)


def _segment_number(request: Any, given: int | None) -> int:
    try:
        return int(getattr(request, "_omni_segment_generation", 0) if given is None else given)
    except (TypeError, ValueError):
        return 0


def _snapshot(request: Any) -> Any:
    """Copy the containers that the scheduler may change before V runs the processor; tensors are shared."""
    snapshot = copy.copy(request)
    for name in (
        "additional_information",
        "prompt_token_ids",
        "_all_token_ids",
        "_output_token_ids",
        "output_token_ids",
    ):
        value = getattr(request, name, None)
        if isinstance(value, dict | list | tuple):
            setattr(snapshot, name, _copy_containers(value))
    return snapshot


def _copy_containers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_containers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return (
            type(value)(_copy_containers(item) for item in value) if type(value) in (list, tuple) else value
        )
    return value
