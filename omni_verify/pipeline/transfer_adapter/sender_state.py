"""Sender state of a stage, and how a stream's state and keys are given back."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from omni_verify.contracts.keys import sequence_prefix
from omni_verify.pipeline.connector import OmniConnectorBase
from omni_verify.pipeline.transfer_adapter.base import OmniTransferAdapterBase
from omni_verify.pipeline.transfer_adapter.generation import SenderGeneration

__all__ = ["RETAINED_RANGES", "SenderState"]

logger = logging.getLogger(__name__)

RETAINED_RANGES = 1024
"""Retired streams whose key range is remembered for a connector without ``cleanup_prefix``."""

_RETIRED = "_omni_sender_retired_by"


class SenderState(OmniTransferAdapterBase):
    """Containers keyed by external id, all changed under ``_sender_state_lock`` (lock order: sender,
    ``_save_cond``).

    While a generation is ``in_flight`` the processor's scratch of that id belongs to V, and nobody clears it.
    """

    def _init_sender_state(self) -> None:
        self._sender_state_lock = threading.Lock()
        self._sender_tokens: dict[str, SenderGeneration] = {}
        self._failed_generations: dict[str, SenderGeneration] = {}
        self._pending_releases: set[str] = set()
        self._retained_ranges: OrderedDict[str, int] = OrderedDict()
        self._retire_mark = object()
        self._released_total = 0
        self._segment_generation: dict[str, int] = defaultdict(int)
        self.requests_num_chunks_sent: dict[str, int] = defaultdict(int)
        self.put_req_chunk: dict[str, int] = defaultdict(int)
        self.ramp_chunk_count: dict[str, int] = defaultdict(int)
        self.code_prompt_token_ids: dict[str, list[Any]] = defaultdict(list)
        self.request_payload: dict[str, Any] = {}
        self._pending_streaming_prefills: dict[str, dict[str, Any]] = {}
        self._adaptive_states: dict[str, Any] = {}
        self._processor_accepts_step_tokens: dict[Callable[..., Any], bool] = {}

    # -- facts -------------------------------------------------------------------------------------

    @property
    def _can_reclaim(self) -> bool:
        """Whether the connector can remove an exact key: a capability, never a class test (W17)."""
        has_cleanup = callable(getattr(self.connector, "cleanup", None))
        return has_cleanup and bool(getattr(self.connector, "reclaims_by_key", True))

    @property
    def _enumerates_keys(self) -> bool:
        """Whether the connector finds its own unread keys; the base class's ``cleanup_prefix`` finds none."""
        method = getattr(self.connector, "cleanup_prefix", None)
        return callable(method) and getattr(method, "__func__", None) is not OmniConnectorBase.cleanup_prefix

    def has_active_sender(self, external_req_id: str) -> bool:
        """Tell whether a stream of this id is live, work still queued included."""
        with self._sender_state_lock:
            generation = self._sender_tokens.get(external_req_id)
            return generation is not None and not generation.cancelled and generation.failure is None

    def _is_current_locked(self, generation: SenderGeneration) -> bool:
        return self._sender_tokens.get(generation.external_req_id) is generation

    # -- the retirement mark (W25) -----------------------------------------------------------------

    def _mark_retired(self, request: Any) -> None:
        """Remember on the request object itself that its stream on this stage is over (W25).

        A late ``save_async`` would open a generation that nobody ever ends. A set of retired ids would grow
        for ever and would refuse a rightful reuse of the id (I39); the mark lives exactly as long as the
        request object.
        """
        if request is None or self._is_retired(request):
            return
        try:
            setattr(request, _RETIRED, (*getattr(request, _RETIRED, ()), self._retire_mark))
        except AttributeError:  # a request type without room for it: its status still tells an abort
            return

    def _is_retired(self, request: Any) -> bool:
        return any(mark is self._retire_mark for mark in getattr(request, _RETIRED, ()))

    # -- retirement (lock held) --------------------------------------------------------------------

    def _retire_locked(self, generation: SenderGeneration, *, keep_terminal: bool) -> None:
        """Drop the generation, queue the reclaim of its keys and clear its state, in one locked step.

        V runs the queue in order and a new generation can append only after this step, so on the wire *old
        puts < old cleanup < new puts* (I30). With ``keep_terminal`` the keys of a stream whose terminal was
        put stay: the consumer reads them (I33).
        """
        ext = generation.external_req_id
        if generation.num_puts:
            if keep_terminal:
                self._remember_range_locked(ext, generation.num_puts)
            else:
                self._queue_range_cleanup_locked(ext, generation.num_puts)
        if generation.release_requested:
            # The release counts as pending until the reclaim before it in the queue has run: the id must not
            # be used again while an old key can still be read (I50, I38c).
            self._queue_release_locked(ext)
        self._sender_tokens.pop(ext, None)
        self._failed_generations.pop(ext, None)
        self._mark_retired(generation.owner)
        self._clear_sender_state_locked(ext)

    def _queue_range_cleanup_locked(self, ext: str, num_puts: int) -> None:
        if self._can_reclaim:
            self._queue_item_locked({"cleanup_shm": (f"{ext}_{self.connector.stage_id}", num_puts)})

    def _queue_release_locked(self, ext: str) -> None:
        if ext in self._pending_releases:
            return
        self._pending_releases.add(ext)
        self._queue_item_locked({"release_shm": f"{ext}_{self.connector.stage_id}_", "external_req_id": ext})

    def _queue_item_locked(self, item: dict[str, Any]) -> None:
        self._pending_save_reqs.append(item)
        with self._save_cond:
            self._save_cond.notify()

    def _remember_range_locked(self, ext: str, num_puts: int) -> None:
        """Keep the extent of a retained stream for a connector that cannot enumerate its own keys (W17).

        Bounded by :data:`RETAINED_RANGES`, oldest first: without the release that the orchestrator owes, a
        leak of keys is then possible, an unbounded map is not (I39).
        """
        if self._enumerates_keys or not self._can_reclaim:
            return
        self._retained_ranges[ext] = max(num_puts, self._retained_ranges.pop(ext, 0))
        while len(self._retained_ranges) > RETAINED_RANGES:
            self._retained_ranges.popitem(last=False)

    def _clear_sender_state_locked(self, ext: str) -> None:
        for container in (
            self.put_req_chunk,
            self.ramp_chunk_count,
            self.code_prompt_token_ids,
            self.request_payload,
            self.requests_num_chunks_sent,
            self._segment_generation,
            self._adaptive_states,
            self._pending_streaming_prefills,
        ):
            container.pop(ext, None)

    # -- reclaiming keys (V) -----------------------------------------------------------------------

    def _cleanup_range(self, prefix: str, num_puts: int) -> None:
        """Remove ``{prefix}_0 .. {prefix}_{num_puts - 1}`` by exact key; a failing one spares no other."""
        for chunk_id in range(num_puts):
            try:
                self.connector.cleanup(f"{prefix}_{chunk_id}")
            except Exception:
                # Contained here and not in the loop: the remaining keys of the range are owed as well (I37b).
                logger.exception("Cleanup of %s_%d failed", prefix, chunk_id)

    def _reclaim_leftovers(self, ext: str) -> int:
        """Remove every key that an ended stream of this id left unread; returns how many were unread.

        Runs for a release, and before the first chunk of a new generation: the key carries no generation,
        so an old unread chunk would be read as the new stream's (W20, I38c). This orders V's own work only:
        a consumer that is registered for the new stream earlier may still read an old chunk, which is why
        the orchestrator releases an id before it uses it again.
        """
        if self._enumerates_keys:
            return int(self.connector.cleanup_prefix(sequence_prefix(ext, self.connector.stage_id)) or 0)
        with self._sender_state_lock:
            num_puts = self._retained_ranges.pop(ext, 0)
        if num_puts:
            self._cleanup_range(f"{ext}_{self.connector.stage_id}", num_puts)
        return num_puts

    def _undo_after_stop(self) -> None:
        """Reclaim every stream when V stops: a put may have returned after the connector was closed (W10).

        ``save_async`` refuses from now on, so retiring what is live and running the owed cleanups is
        complete.
        """
        with self._sender_state_lock:
            for generation in list(self._sender_tokens.values()):
                self._retire_locked(generation, keep_terminal=False)
            self._pending_releases.clear()
            retained = list(self._retained_ranges.items())
            self._retained_ranges.clear()
        owed = [task["cleanup_shm"] for task in self._pending_save_reqs if "cleanup_shm" in task]
        self._pending_save_reqs.clear()
        owed += [(f"{ext}_{self.connector.stage_id}", num_puts) for ext, num_puts in retained]
        for prefix, num_puts in owed:
            self._cleanup_range(prefix, num_puts)
