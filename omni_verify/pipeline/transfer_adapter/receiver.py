"""The receiving side: registration on S, polls and commits on R, cleanup on S."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from typing import Any

from omni_verify.contracts.keys import build_key
from omni_verify.pipeline.request import PrefillStats
from omni_verify.pipeline.transfer_adapter.base import OmniTransferAdapterBase
from omni_verify.pipeline.transfer_adapter.received import codes_update, error_text, flag, payload_fault

__all__ = ["ChunkReceiver", "LoadEntry"]

logger = logging.getLogger(__name__)


class LoadEntry:
    """One registration: the identity that a late get result is compared with (I38)."""

    __slots__ = ("request", "source_metadata")

    def __init__(self, request: Any) -> None:
        self.request = request
        sender = getattr(request, "payload_sender_info", None)
        host, port = (
            (sender.get("host"), sender.get("zmq_port")) if isinstance(sender, dict) else (None, None)
        )
        self.source_metadata = {"source_host": str(host), "source_port": int(port)} if host and port else None

    @property
    def request_id(self) -> str:
        """Internal id."""
        return str(self.request.request_id)

    @property
    def external_req_id(self) -> str:
        """External id, part of the key."""
        return str(self.request.external_req_id)


class ChunkReceiver(OmniTransferAdapterBase):
    """Receiver state, keyed by internal id.

    Two kinds of containers (W2, I44b). Those that R also uses are changed under ``_receiver_state_lock``. The
    scheduler's own (parking deques, ready set, origin status, waiting clocks, active streams) are touched by
    S alone, without a lock. V therefore never cleans up a receiver: it posts the request object whose stream
    ended to ``_receiver_inbox``, and S takes the posts out at the start of every verb. A post names an
    object, not an id, so a late one cannot hit a newer registration of the same id (W4, I38b).
    """

    receives_chunks: bool
    model_mode: str

    def _init_receiver_state(self) -> None:
        self._receiver_state_lock = threading.Lock()
        self._registered_load_entries: dict[str, LoadEntry] = {}
        self._receiver_owners: dict[str, Any] = {}
        self.request_ids_mapping: dict[str, str] = {}
        self.get_req_chunk: dict[str, int] = defaultdict(int)
        self.upstream_exhausted_requests: set[str] = set()
        self.segment_finished_requests: set[str] = set()
        self._pending_ar_prompt_updates: dict[str, tuple[Any, dict[str, Any], bool, int]] = {}
        self._receiver_inbox: deque[Any] = deque()
        # S only, from here on.
        self.waiting_for_chunk_waiting_requests: deque[Any] = deque()
        self.waiting_for_chunk_running_requests: deque[Any] = deque()
        self._held_non_active: deque[Any] = deque()
        self.requests_with_ready_chunks: set[str] = set()
        self.replaced_streaming_prompt_ids: set[str] = set()
        self.requests_origin_status: dict[str, Any] = {}
        self._active_streams: dict[str, Any] = {}
        self._waiting_since: dict[str, float] = {}

    # -- registration (S) --------------------------------------------------------------------------

    def load_async(self, request: Any) -> None:
        """Register a request for its next chunk, without I/O; a no-op on stage 0 or without an upstream."""
        self._drain_receiver_inbox()
        if int(self.connector.stage_id) == 0 or not self.receives_chunks:
            return
        if not hasattr(request, "additional_information"):
            request.additional_information = None
        with self._receiver_state_lock:
            if request.request_id in self._registered_load_entries:
                return
            entry = LoadEntry(request)
            self._receiver_owners[request.request_id] = request
            self._registered_load_entries[request.request_id] = entry
            self._pending_load_reqs.append(entry)
        with self._recv_cond:
            self._arrival.registered()

    def is_done_receiving_chunks(self, request_id: str) -> bool:
        """Tell whether no more chunk is to be polled: the stream or the present segment has ended.

        Takes the lock of the commit: the answer never mixes a new end flag with the old prompt, so a
        scheduler that finishes on *done and everything computed* cannot skip the last chunk (W13).
        """
        with self._receiver_state_lock:
            return (
                request_id in self.upstream_exhausted_requests or request_id in self.segment_finished_requests
            )

    def begin_segment(self, request_id: str) -> None:
        """Poll again: the scheduler has computed the segment that ended, and the stream goes on."""
        with self._receiver_state_lock:
            self.segment_finished_requests.discard(request_id)

    # -- poll (R) ----------------------------------------------------------------------------------

    def _poll_single_request(self, entry: LoadEntry) -> bool:
        """Try to get the entry's next chunk; True when the entry needs no further poll.

        The get runs without a lock. Its result is committed only while the entry is still the registered one,
        which is tested before and after (I38); a stale entry changes no state.
        """
        request_id, stage = entry.request_id, int(self.connector.stage_id)
        with self._receiver_state_lock:
            if self._registered_load_entries.get(request_id) is not entry:
                return True
            self.request_ids_mapping[request_id] = entry.external_req_id
            chunk_id = self.get_req_chunk.get(request_id, 0)
        key = build_key(entry.external_req_id, stage - 1, chunk_id)
        result, fault = None, None
        try:
            result = self.connector.get(str(stage - 1), str(stage), key, entry.source_metadata)
        except ValueError as error:  # PayloadDecodeError, or a foreign decoder's own: the bytes are consumed
            fault = f"{type(error).__name__}: {error}"
        except Exception as error:  # the chunk may still come: the deadline bounds the wait
            logger.error("get(%r) raised: %s", key, error)
        with self._receiver_state_lock:
            if self._registered_load_entries.get(request_id) is not entry:
                return True
            if result is None and fault is None:
                return False
            return self._accept_locked(entry, result, fault, chunk_id=chunk_id, key=key)

    def _accept_locked(
        self, entry: LoadEntry, result: Any, fault: str | None, *, chunk_id: int, key: str
    ) -> bool:
        """Commit a result, or fail the request at once: the chunk is gone, no poll can help (W8)."""
        request_id = entry.request_id
        if fault is None:
            fault = self._fault_of(result)
        if fault is None:
            try:
                done = self._commit_received_chunk(
                    entry.request,
                    result,
                    stage_id=int(self.connector.stage_id),
                    req_id=request_id,
                    chunk_id=chunk_id,
                    connector_get_key=key,
                )
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
                logger.exception("Committing %r failed", key)
        if fault is not None:
            self.record_receive_failure(request_id, f"chunk {key}: {fault}")
            done = True
        if done:
            self._registered_load_entries.pop(request_id, None)
        return done

    def _fault_of(self, result: Any) -> str | None:
        if not isinstance(result, tuple | list) or len(result) != 2:
            return f"expected (payload, size) from the connector, got {type(result).__name__}"
        error = error_text(result[0])
        if error is not None:
            return f"the producer failed the stream: {error}"
        return payload_fault(result[0], codes_required=self.model_mode != "ar")

    # -- commit (R, lock held) ---------------------------------------------------------------------

    def _commit_received_chunk(
        self,
        request: Any,
        result: tuple[dict[str, Any], int],
        *,
        stage_id: int,
        req_id: str,
        chunk_id: int,
        connector_get_key: str,
    ) -> bool:
        """Apply a well-formed chunk while the receiver lock is held; False when it carried nothing yet.

        An explicitly empty chunk advances the chunk id and keeps the entry registered. The order is: data,
        end flags, ready marker. So whoever sees a flag or the marker sees the data (W13, I43).
        """
        payload = result[0]
        finished, boundary = flag(payload, "finished"), flag(payload, "is_segment_finished")
        if self.model_mode == "ar":
            resumable = bool(getattr(request, "resumable", False))
            self._pending_ar_prompt_updates[req_id] = (request, payload, resumable, chunk_id)
        else:
            update = codes_update(payload, getattr(request, "additional_information", None))
            request.additional_information = update.information
            request.prompt_token_ids = update.prompt_token_ids
            request.num_computed_tokens = 0
            request.num_prompt_tokens = len(update.prompt_token_ids)
            if getattr(request, "prefill_stats", None) is None:
                request.prefill_stats = PrefillStats()
            if not (update.has_codes or finished or boundary):
                self.get_req_chunk[req_id] = chunk_id + 1
                return False
        self.get_req_chunk[req_id] = chunk_id + 1
        if finished:
            request.resumable = False
            self.upstream_exhausted_requests.add(req_id)
        if boundary:
            self.segment_finished_requests.add(req_id)
        self._finished_load_reqs.add(req_id)
        logger.debug("Stage %d received %s", stage_id, connector_get_key)
        return True

    # -- cleanup -----------------------------------------------------------------------------------

    def cleanup_receiver(self, request_id: str) -> None:
        """Forget everything about the receiving side of ``request_id``; idempotent, keeps no tombstone (I39).

        A scheduler verb. A get in flight is not waited for: its result finds no registration and is dropped.
        """
        self._drain_receiver_inbox()
        self._clear_receiver(request_id)

    def _post_receiver_cleanup(self, request: Any) -> None:
        """Ask S to clean up the receiver of a request whose stream ended (V; W2, W4)."""
        with self._receiver_state_lock:
            if self._owns_receiver(request):
                self._receiver_inbox.append(request)

    def _owns_receiver(self, request: Any) -> bool:
        return self._receiver_owners.get(request.request_id) is request

    def _drain_receiver_inbox(self) -> None:
        """Run the posted cleanups whose request still owns its id (S, at the start of every verb)."""
        while self._receiver_inbox:
            request: Any = self._receiver_inbox.popleft()
            if self._owns_receiver(request):
                self._clear_receiver(request.request_id)

    def _clear_receiver(self, request_id: str) -> None:
        with self._receiver_state_lock:
            for container in (
                self._registered_load_entries,
                self._receiver_owners,
                self.request_ids_mapping,
                self.get_req_chunk,
                self._pending_ar_prompt_updates,
            ):
                container.pop(request_id, None)
            for marks in (
                self.upstream_exhausted_requests,
                self.segment_finished_requests,
                self._finished_load_reqs,
            ):
                marks.discard(request_id)
        self.forget_receive_failure(request_id)
        self.requests_with_ready_chunks.discard(request_id)
        self.replaced_streaming_prompt_ids.discard(request_id)
        self.requests_origin_status.pop(request_id, None)
        self._waiting_since.pop(request_id, None)
        self._active_streams.pop(request_id, None)
        for parked in self._parking_deques():
            _discard(parked, request_id)

    def _parking_deques(self) -> tuple[deque[Any], deque[Any], deque[Any]]:
        return (
            self.waiting_for_chunk_waiting_requests,
            self.waiting_for_chunk_running_requests,
            self._held_non_active,
        )

    def _external_id_of(self, request_id: str) -> str:
        with self._receiver_state_lock:
            return self.request_ids_mapping.get(request_id, request_id)


def _discard(parked: deque[Any], request_id: str) -> None:
    """Remove a request from a parking deque in place; the others keep their order."""
    for _ in range(len(parked)):
        request = parked.popleft()
        if request.request_id != request_id:
            parked.append(request)
