"""What the save thread does with one queued item."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch

from omni_verify.contracts.keys import build_key
from omni_verify.contracts.payload_schema import (
    MetaStruct,
    OmniPayloadStruct,
    is_truthy_scalar,
    unflatten_payload,
)
from omni_verify.pipeline.transfer_adapter.failed_stream import FailedStreams
from omni_verify.pipeline.transfer_adapter.generation import SenderGeneration

__all__ = ["ChunkSending"]

logger = logging.getLogger(__name__)

_RELEASE_WARNING_STEP = 1000


class ChunkSending(FailedStreams):
    """Run the items of the save queue on V, in order: chunks, range cleanups, releases."""

    def _send_single_request(self, task: dict[str, Any]) -> None:
        """Run one item; a chunk whose generation has lost the id is discarded (I30)."""
        if "cleanup_shm" in task:
            self._cleanup_range(*task["cleanup_shm"])
        elif "release_shm" in task:
            self._run_release(task["external_req_id"])
        else:
            generation: SenderGeneration = task["sender_token"]
            if self._begin_send(task, generation):
                try:
                    self._send_chunk(task, generation)
                finally:
                    self._end_send(task, generation)

    def _run_release(self, ext: str) -> None:
        try:
            unread = self._reclaim_leftovers(ext)
        finally:
            with self._sender_state_lock:
                self._pending_releases.discard(ext)
        before, self._released_total = self._released_total, self._released_total + unread
        if before // _RELEASE_WARNING_STEP != self._released_total // _RELEASE_WARNING_STEP:
            logger.warning("%d chunks were released unread so far", self._released_total)

    # -- fence around one chunk --------------------------------------------------------------------

    def _begin_send(self, task: dict[str, Any], generation: SenderGeneration) -> bool:
        with self._sender_state_lock:
            is_terminal = task["is_finished"]
            current = self._is_current_locked(generation)
            if current and generation.may_put(is_terminal=is_terminal):
                generation.in_flight = True
                return True
            if is_terminal:
                self._release_fence_locked(generation)
            return False

    def _end_send(self, task: dict[str, Any], generation: SenderGeneration) -> None:
        """Leave the fence on every exit, and finish a retirement that waited for this task (I34)."""
        with self._sender_state_lock:
            generation.in_flight = False
            if task["is_finished"]:
                self._release_fence_locked(generation)
            elif self._is_current_locked(generation):
                self._settle_locked(generation)

    def _release_fence_locked(self, generation: SenderGeneration) -> None:
        generation.terminal_pending = False
        generation.ended = True
        if self._is_current_locked(generation):
            self._settle_locked(generation)

    def _settle_locked(self, generation: SenderGeneration) -> None:
        if generation.failure is not None:
            self._settle_failed_locked(generation)
        elif generation.cancelled and not generation.terminal_pending:
            keep = generation.terminal_sent and not (generation.release_requested or self.stop_event.is_set())
            self._retire_locked(generation, keep_terminal=keep)

    # -- one chunk ---------------------------------------------------------------------------------

    def _send_chunk(self, task: dict[str, Any], generation: SenderGeneration) -> None:
        """Build one payload and put it under the stream's next key.

        A processor that raises, a put that reports failure and a put that raises all fail the stream at once:
        the frames of that chunk are gone, and a later chunk must not take its number (W7, W26, I36).
        """
        ext = generation.external_req_id
        if generation.is_new:
            generation.is_new = False
            self._contain(lambda: self._reclaim_leftovers_before_reuse(ext))
        chunk_id = self.put_req_chunk[ext]
        try:
            payload = self._build_payload(task)
        except Exception as error:
            logger.exception("The stage input processor failed for %r", ext)
            self._fail_stream(generation, task, _reason("stage input processor", error), (chunk_id,))
            return
        if payload is None:
            return
        if not self._claim_key(task, generation, chunk_id):
            return
        failure = self._put(build_key(ext, self.connector.stage_id, chunk_id), payload)
        if failure is not None:
            # The key may exist, and the consumer may have read it already: it waits at this key or at the
            # next.
            self._fail_stream(generation, task, failure, (chunk_id, chunk_id + 1))
            return
        self._commit_put(task, generation, payload)

    def _reclaim_leftovers_before_reuse(self, ext: str) -> None:
        if self._can_reclaim:
            self._reclaim_leftovers(ext)

    def _claim_key(self, task: dict[str, Any], generation: SenderGeneration, chunk_id: int) -> bool:
        """Cover the key and test the generation in one step: a put that starts is in the range (I31)."""
        with self._sender_state_lock:
            active = self._is_current_locked(generation) and generation.may_put(
                is_terminal=task["is_finished"]
            )
            if active:
                generation.num_puts = max(generation.num_puts, chunk_id + 1)
            return active

    def _put(self, key: str, payload: OmniPayloadStruct) -> str | None:
        """Put one payload; return why it failed, or None."""
        stage = int(self.connector.stage_id)
        logger.debug("Stage %d puts %s", stage, key)
        try:
            ok, _size, _metadata = self.connector.put(
                from_stage=str(stage), to_stage=str(stage + 1), put_key=key, data=payload
            )
        except Exception as error:
            logger.error("put(%r) raised: %s", key, error)
            return _reason("connector.put", error)
        return None if ok else "connector.put reported failure"

    def _commit_put(
        self, task: dict[str, Any], generation: SenderGeneration, payload: OmniPayloadStruct
    ) -> None:
        ext, ended = generation.external_req_id, False
        with self._sender_state_lock:
            if not self._is_current_locked(generation):
                return
            self.put_req_chunk[ext] += 1
            self.ramp_chunk_count[ext] += 1
            # A model-controlled codec stream may go on behind the scheduler's terminal: only a payload that
            # says so ends the stream for the consumer.
            ended = (
                task["is_finished"] and payload.meta is not None and is_truthy_scalar(payload.meta.finished)
            )
            if ended:
                generation.terminal_sent = generation.cancelled = True
            if task["is_segment_finished"]:
                for container in (self.code_prompt_token_ids, self.ramp_chunk_count, self._adaptive_states):
                    container.pop(ext, None)
        if ended:
            self._post_receiver_cleanup(task["owner"])

    # -- payload -----------------------------------------------------------------------------------

    def _build_payload(self, task: dict[str, Any]) -> OmniPayloadStruct | None:
        """Run the processor and stamp the end flags; None when there is nothing to send.

        The processor's ``is_finished`` is a flush signal, for a segment end as well as for the request end;
        the wire flag ``meta.finished`` is the request end only, unless the model controls the codec's
        lifetime.
        """
        is_finished, is_boundary = task["is_finished"], task["is_segment_finished"]
        payload: OmniPayloadStruct | None = None
        processor = self.custom_process_next_stage_input_func
        if processor is not None:
            raw = task["multimodal_output"]
            arguments: dict[str, Any] = {
                "transfer_manager": self,
                "multimodal_output": unflatten_payload(raw) if isinstance(raw, Mapping) else raw,
                "request": task["request"],
                "is_finished": is_boundary or is_finished,
            }
            if self._accepts_new_token_ids(processor):
                arguments["new_token_ids"] = task["new_token_ids"]
            payload = processor(**arguments)
        if payload is None:
            if not (is_boundary or is_finished):
                return None
            payload = OmniPayloadStruct()
        if payload.meta is None:
            payload.meta = MetaStruct()
        model_decides = payload.meta.finished is not None and is_truthy_scalar(payload.meta.codec_streaming)
        if not model_decides:
            payload.meta.finished = torch.tensor(is_finished, dtype=torch.bool)
        if payload.meta.is_segment_finished is None:
            payload.meta.is_segment_finished = torch.tensor(is_boundary, dtype=torch.bool)
        return payload

    def _accepts_new_token_ids(self, processor: Callable[..., Any]) -> bool:
        known = self._processor_accepts_step_tokens.get(processor)
        if known is None:
            try:
                parameters = list(inspect.signature(processor).parameters.values())
            except (TypeError, ValueError):
                parameters = []
            known = any(
                p.name == "new_token_ids" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters
            )
            self._processor_accepts_step_tokens[processor] = known
        return known

    def _post_receiver_cleanup(self, request: Any) -> None:
        raise NotImplementedError


def _reason(part: str, error: Exception) -> str:
    return f"{part} failed: {type(error).__name__}: {error}"
