"""How a stream that lost a chunk ends on both sides (W7, W26, W31, W34, I35, I36).

The stream is *failed*, once and for all: the failure is recorded for this stage's scheduler, no later data of
the generation is put, and the consumer gets an **error terminal**: ``meta.finished`` true and ``meta.error``
with the reason. Where to put it is not certain. When ``put(k)`` fails, the key may not exist (the consumer
waits at k), exist unread (the put at k replaces it), or have been created and read (the consumer waits at k +
1). So it is put at k and at k + 1; the consumer reads exactly one of them.

The connector may refuse the error terminal as well, so the save loop repeats it on a bounded schedule. Once
the producer's own end is known, the generation lingers for :data:`LINGER_S`, so that the consumer can read,
and then gives back its state and every key, with or without an abort (I35). An abort or a release does so at
once.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import torch

from omni_verify.contracts.keys import build_key
from omni_verify.contracts.payload_schema import MetaStruct, OmniPayloadStruct
from omni_verify.pipeline.transfer_adapter.admission import SenderAdmission
from omni_verify.pipeline.transfer_adapter.base import IDLE_WAIT_S
from omni_verify.pipeline.transfer_adapter.generation import SenderGeneration

__all__ = ["ERROR_TERMINAL_ATTEMPTS", "LINGER_S", "FailedStreams"]

logger = logging.getLogger(__name__)

ERROR_TERMINAL_ATTEMPTS = 8
"""Rounds in which the error terminal is put before the consumer is left to its own deadline."""

FIRST_RETRY_S = 0.005
"""Pause before the second round; it doubles from round to round, about 0.6 s in all."""

LINGER_S = 2.0
"""How long an ended, failed stream keeps its keys after the error terminal was accepted."""


class FailedStreams(SenderAdmission):
    """Put error terminals and retire failed generations; V only, but for :meth:`_settle_failed_locked`."""

    def _fail_stream(
        self, generation: SenderGeneration, task: dict[str, Any], reason: str, error_ids: tuple[int, ...]
    ) -> None:
        """Fail the stream whose task runs on V; ``error_ids`` are the chunk ids the consumer may wait at."""
        self.record_send_failure(task["request"].request_id, reason)
        with self._sender_state_lock:
            if not self._is_current_locked(generation):
                return
            generation.failure = reason
            self._failed_generations[generation.external_req_id] = generation
            if generation.cancelled and not generation.terminal_pending:
                generation.aborted = True  # asked to end before it had a terminal: nobody waits for one
            if generation.aborted:
                return  # settled when this task leaves the fence
            generation.error_ids = error_ids
            generation.num_puts = max(generation.num_puts, error_ids[-1] + 1)
        self._put_error_terminals(generation)

    def _put_error_terminals(self, generation: SenderGeneration) -> None:
        """Run one round of puts; the caller has made the generation ``in_flight``."""
        ext, stage = generation.external_req_id, int(self.connector.stage_id)
        refused = tuple(
            chunk_id
            for chunk_id in generation.error_ids
            if self._put(build_key(ext, stage, chunk_id), _error_terminal(generation.failure or ""))
            is not None
        )
        with self._sender_state_lock:
            generation.error_ids = refused
            generation.error_attempts += 1
            generation.due = time.monotonic() + FIRST_RETRY_S * 2 ** (generation.error_attempts - 1)

    def _settle_failed_locked(self, generation: SenderGeneration) -> None:
        """Retire a failed generation if nothing is owed any more, else arrange the next step."""
        if generation.in_flight:
            return  # V settles it when it comes back
        gone = generation.aborted or generation.release_requested
        given_up = bool(generation.error_ids) and generation.error_attempts >= ERROR_TERMINAL_ATTEMPTS
        if gone or (given_up and generation.ended):
            self._retire_locked(generation, keep_terminal=False)
        elif generation.ended and not generation.error_ids:
            now = time.monotonic()
            if not generation.lingering:
                generation.lingering, generation.due = True, now + LINGER_S
            if now >= generation.due:
                self._retire_locked(generation, keep_terminal=False)
        with self._save_cond:
            self._save_cond.notify()

    def _run_periodic_work(self) -> None:
        """Repeat refused error terminals that are due, and retire what has lingered."""
        with self._sender_state_lock:
            failed = list(self._failed_generations.values())
        for generation in failed:
            with self._sender_state_lock:
                retry = self._retry_is_due_locked(generation)
                generation.in_flight = generation.in_flight or retry
            try:
                if retry:
                    self._put_error_terminals(generation)
            finally:
                with self._sender_state_lock:
                    generation.in_flight = False
                    if self._is_current_locked(generation):
                        self._settle_failed_locked(generation)

    def _retry_is_due_locked(self, generation: SenderGeneration) -> bool:
        return (
            self._is_current_locked(generation)
            and bool(generation.error_ids)
            and generation.error_attempts < ERROR_TERMINAL_ATTEMPTS
            and time.monotonic() >= generation.due
        )

    def _save_idle_timeout(self) -> float:
        with self._sender_state_lock:
            dues = [
                generation.due
                for generation in self._failed_generations.values()
                if generation.lingering
                or (generation.error_ids and generation.error_attempts < ERROR_TERMINAL_ATTEMPTS)
            ]
        if not dues:
            return IDLE_WAIT_S
        return min(IDLE_WAIT_S, max(0.001, min(dues) - time.monotonic()))

    def _put(self, key: str, payload: OmniPayloadStruct) -> str | None:
        raise NotImplementedError


def _error_terminal(reason: str) -> OmniPayloadStruct:
    return OmniPayloadStruct(
        meta=MetaStruct(
            finished=torch.tensor(True),
            is_segment_finished=torch.tensor(False),
            error=reason,
        )
    )
