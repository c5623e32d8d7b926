"""One scheduler tick: park what waits for a chunk, mark what got one ready, restore the queues (S only)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.transfer_adapter.ar_prompt import update_prompt
from omni_verify.pipeline.transfer_adapter.receiver import ChunkReceiver

__all__ = ["ChunkParking"]


class ChunkParking(ChunkReceiver):
    """``process_pending_chunks`` -> scheduling -> ``postprocess_scheduler_output`` -> ``restore_queues``.

    A request without a chunk must be invisible to the scheduler: it would run the model on an empty
    placeholder. A waiting queue offers iteration, ``remove``, ``add_request`` and ``prepend_requests``; the
    running queue is a list.
    """

    scheduler_max_num_seqs: int
    _max_model_len: int
    _active_window: int

    @property
    def num_running_waiting_for_chunk(self) -> int:
        """Number of running requests that are parked."""
        return len(self.waiting_for_chunk_running_requests)

    @property
    def _takes_part(self) -> bool:
        return self.receives_chunks and int(self.connector.stage_id) != 0

    # -- before scheduling -------------------------------------------------------------------------

    def process_pending_chunks(
        self,
        waiting_queue: Any,
        running_queue: list[Any],
        *,
        scheduler_requests: Mapping[str, Any] | None = None,
    ) -> None:
        """Take requests that wait for a chunk out of the queues, and mark those that got one ready.

        Args:
            waiting_queue: the scheduler's waiting queue.
            running_queue: the scheduler's running list.
            scheduler_requests: its live requests by internal id; the state of every other id is dropped
                (I45).
        """
        self._drain_receiver_inbox()
        if not self._takes_part:
            return
        self._purge_dead(scheduler_requests)
        if self._active_window > 0:
            self._promote_active_streams(running_queue)
            self._promote_active_streams(waiting_queue)
        self._park(waiting_queue, self.waiting_for_chunk_waiting_requests, RequestStatus.WAITING)
        self._park(running_queue, self.waiting_for_chunk_running_requests, RequestStatus.RUNNING)
        self._apply_pending_ar_prompt_updates(scheduler_requests)
        self._requeue_replaced_prompts(waiting_queue, running_queue)
        if self._active_window > 0:
            self._hold_non_active(running_queue)
        while len(running_queue) > self.scheduler_max_num_seqs:
            request = running_queue.pop()
            request.status = RequestStatus.PREEMPTED
            waiting_queue.prepend_requests([request])

    def _purge_dead(self, live: Mapping[str, Any] | None) -> None:
        """Drop the state of requests that were freed without ``finish_requests`` (I45, vllm-omni#3736)."""
        if live is None:
            return
        known = set(self._receiver_owners) | set(self._active_streams)
        known.update(request.request_id for parked in self._parking_deques() for request in parked)
        for request_id in known - set(live):
            self._clear_receiver(request_id)

    def _park(self, queue: Any, parked: deque[Any], queue_status: RequestStatus) -> None:
        for request in list(queue):
            if not self._ensure_active_stream(request):
                if queue_status is RequestStatus.WAITING:
                    queue.remove(request)
                    parked.append(request)
            elif not self._may_stay(request, queue_status):
                queue.remove(request)
                self.requests_origin_status[request.request_id] = queue_status
                parked.append(request)

    def _may_stay(self, request: Any, queue_status: RequestStatus) -> bool:
        """Decide whether the scheduler may see the request this tick, and move its state on.

        The clock in ``_waiting_since`` runs exactly while the status is WAITING_FOR_CHUNK, whatever else was
        cleaned up meanwhile, so the deadline always comes (I46, W4). It measures the stall: a chunk stops it.
        """
        request_id = request.request_id
        if request.status != RequestStatus.WAITING_FOR_CHUNK:
            if request_id in self.requests_with_ready_chunks:
                return True  # got its chunk in an earlier tick, and was not scheduled since
            if self.is_done_receiving_chunks(request_id):
                request.additional_information = None
                return True
            self.load_async(request)
            request.status = RequestStatus.WAITING_FOR_CHUNK
        elif self._take_finished_load(request_id):
            request.status = queue_status
            self.requests_with_ready_chunks.add(request_id)
            self._waiting_since.pop(request_id, None)
            return True
        self._waiting_since.setdefault(request_id, time.monotonic())
        return False

    def _take_finished_load(self, request_id: str) -> bool:
        """Take R's marker under R's lock, so that no marker is lost between test and removal (W35)."""
        with self._receiver_state_lock:
            taken = request_id in self._finished_load_reqs
            self._finished_load_reqs.discard(request_id)
            return taken

    def _apply_pending_ar_prompt_updates(self, live: Mapping[str, Any] | None) -> None:
        """Give AR requests their chunk on S, where the token counters are a consistent snapshot."""
        for request_id in tuple(self.requests_with_ready_chunks):
            with self._receiver_state_lock:
                pending = self._pending_ar_prompt_updates.pop(request_id, None)
            if pending is None:
                continue
            fallback, payload, resumable, chunk_id = pending
            request = live.get(request_id) if live is not None else fallback
            if request is None:
                continue
            request.additional_information = payload
            try:
                replaced = resumable and update_prompt(
                    payload, request, is_first=chunk_id == 0, max_model_len=self._max_model_len
                )
                if replaced:
                    self.replaced_streaming_prompt_ids.add(request_id)
            except ValueError as error:  # consumed: a retry would skip this condition
                self.record_receive_failure(request_id, str(error))

    def _requeue_replaced_prompts(self, waiting_queue: Any, running_queue: list[Any]) -> None:
        """Send a running request whose prompt was replaced through admission again."""
        for request in list(running_queue):
            request_id = request.request_id
            if (
                request_id in self.replaced_streaming_prompt_ids
                and request_id in self.requests_with_ready_chunks
            ):
                running_queue.remove(request)
                request.status = RequestStatus.WAITING
                self.requests_origin_status[request_id] = RequestStatus.WAITING
                waiting_queue.add_request(request)

    # -- active stream window ----------------------------------------------------------------------

    def _promote_active_streams(self, queue: Any) -> None:
        """Admit requests to the window in queue order while there is room."""
        for request in list(queue):
            self._ensure_active_stream(request)

    def _ensure_active_stream(self, request: Any) -> bool:
        if self._active_window <= 0:
            return True
        if (
            request.request_id not in self._active_streams
            and len(self._active_streams) >= self._active_window
        ):
            return False
        self._active_streams[request.request_id] = request
        return True

    def _hold_non_active(self, running_queue: list[Any]) -> None:
        """Hide running requests outside the window until restore; waiting must not change mid-step."""
        for request in list(running_queue):
            if request.request_id not in self._active_streams:
                running_queue.remove(request)
                self._held_non_active.append(request)

    # -- after scheduling --------------------------------------------------------------------------

    def restore_queues(
        self,
        waiting_queue: Any,
        running_queue: list[Any],
        scheduler_requests: Mapping[str, Any] | None = None,
    ) -> None:
        """Put parked live requests back, each once and in order; grants no ready marker (I44).

        To be called also when scheduling raised.
        """
        self._drain_receiver_inbox()
        if not self.receives_chunks:
            return
        self._purge_dead(scheduler_requests)
        while self.waiting_for_chunk_waiting_requests:
            waiting_queue.add_request(self.waiting_for_chunk_waiting_requests.popleft())
        for parked in (self.waiting_for_chunk_running_requests, self._held_non_active):
            while parked:
                running_queue.append(parked.popleft())

    def postprocess_scheduler_output(
        self, scheduler_output: Any, requests: Mapping[str, Any] | None = None
    ) -> None:
        """Clear the ready markers of exactly the scheduled requests (I43); attach chunks to cached ones."""
        self._drain_receiver_inbox()
        if not self._takes_part:
            return
        if requests is not None:
            self.attach_cached_additional_information(scheduler_output, requests)
        new = getattr(scheduler_output, "scheduled_new_reqs", None) or ()
        cached = getattr(scheduler_output, "scheduled_cached_reqs", None)
        scheduled = [data.req_id for data in new]
        self.replaced_streaming_prompt_ids.difference_update(scheduled)
        scheduled += list(cached.req_ids) if cached else []
        self.requests_with_ready_chunks.difference_update(scheduled)

    @staticmethod
    def attach_cached_additional_information(scheduler_output: Any, requests: Mapping[str, Any]) -> None:
        """Hand the chunk of each scheduled cached request to the worker, once."""
        cached = getattr(scheduler_output, "scheduled_cached_reqs", None)
        if not cached:
            return
        if not hasattr(cached, "additional_information"):
            cached.additional_information = {}
        for request_id in cached.req_ids:
            request = requests.get(request_id)
            information = getattr(request, "additional_information", None)
            cached.additional_information[request_id] = information
            if request is not None and information:
                request.additional_information = None

    # -- deadline ----------------------------------------------------------------------------------

    def collect_timed_out_request_ids(self, timeout_s: float) -> set[str]:
        """Take the ids that have waited longer than ``timeout_s`` seconds for a chunk; 0 disables (I46)."""
        self._drain_receiver_inbox()
        if timeout_s <= 0 or not self._waiting_since:
            return set()
        now = time.monotonic()
        late = {request_id for request_id, since in self._waiting_since.items() if now - since > timeout_s}
        for request_id in late:
            del self._waiting_since[request_id]
        return late
