"""The chunk transfer adapter of one stage: both directions behind vllm-omni's names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from omni_verify.errors import UsageError
from omni_verify.pipeline.factory import OmniConnectorFactory
from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.transfer_adapter.parking import ChunkParking
from omni_verify.pipeline.transfer_adapter.sending import ChunkSending

__all__ = ["OmniChunkTransferAdapter", "stage_receives_chunks"]


def stage_receives_chunks(model_config: Any) -> bool:
    """Tell whether chunks feed this stage: its resolved mode, unless its connector only sends.

    Raises:
        UsageError: the configuration does not say ``async_chunk``; a default would make a chunk consumer of a
            stage that was merely configured by hand (W33).
    """
    if not hasattr(model_config, "async_chunk"):
        raise UsageError(
            "the model configuration has no async_chunk. Expected the resolved mode of the stage, "
            "True or False; set it from the resolver."
        )
    extra = _connector_config(model_config)["extra"]
    return bool(model_config.async_chunk) and extra.get("role") != "sender"


class OmniChunkTransferAdapter(ChunkParking, ChunkSending):
    """Send this stage's chunks to stage ``k + 1`` and receive those of stage ``k - 1``.

    Every public method but the failure collectors is a scheduler verb: called by S, never waits for I/O
    (I29).

    Args:
        vllm_config: needs ``model_config`` (``stage_id``, ``worker_type`` "ar" or "generation",
            ``async_chunk``, ``stage_connector_config`` with ``name`` and ``extra``,
            ``custom_process_next_stage_input_func`` as a dotted path or None, ``active_stream_window``,
            ``max_num_seqs``, ``max_model_len``) and ``scheduler_config.max_num_seqs``.
    """

    def __init__(self, vllm_config: Any) -> None:
        model_config = vllm_config.model_config
        self.receives_chunks = stage_receives_chunks(model_config)
        self.model_mode = getattr(model_config, "worker_type", None) or "ar"
        self.scheduler_max_num_seqs = int(vllm_config.scheduler_config.max_num_seqs)
        self._max_model_len = int(getattr(model_config, "max_model_len", 0) or 0)
        window = int(getattr(model_config, "active_stream_window", 0) or 0)
        most = int(getattr(model_config, "max_num_seqs", 0) or 0)
        self._active_window = max(0, min(window, most if most > 0 else self.scheduler_max_num_seqs))
        self.hf_config = getattr(model_config, "hf_config", None)
        path = getattr(model_config, "custom_process_next_stage_input_func", None)
        self.custom_process_next_stage_input_func = _import_function(path) if path else None
        self._init_sender_state()
        self._init_receiver_state()
        self.connector = self.create_connector(model_config)
        super().__init__(model_config)  # starts the threads: last

    @classmethod
    def create_connector(cls, model_config: Any) -> Any:
        """Build the connector named by ``stage_connector_config``; its ``extra`` always says ``stage_id``."""
        spec = _connector_config(model_config)
        stage_id = int(getattr(model_config, "stage_id", spec["extra"].get("stage_id", 0)))
        return OmniConnectorFactory.create_connector(
            {"name": spec["name"], "extra": {**spec["extra"], "stage_id": stage_id}}
        )

    # -- end of requests ---------------------------------------------------------------------------

    def cleanup(self, request_id: str, external_req_id: str | None = None) -> None:
        """Reclaim both sides of a finished request; idempotent.

        Args:
            request_id: internal id.
            external_req_id: external id; looked up when None.
        """
        if external_req_id is None:
            external_req_id = self._external_id_of(request_id)
        self.cleanup_receiver(request_id)
        self.cleanup_sender(external_req_id)

    def finish_requests(
        self,
        request_ids: Any,
        finished_status: Any,
        requests: Mapping[str, Any] | None = None,
    ) -> list[tuple[str, int]]:
        """End requests on abort, deadline or error, before the scheduler's own ``finish_requests``.

        A parked request gets back the status of the queue it was taken from. Both sides are cleaned up, also
        for ids that the scheduler has already freed. An aborted stream owes its consumer nothing; any other
        failed stream keeps its error terminal readable for a while.

        Args:
            request_ids: one internal id, several, or None for all of ``requests``.
            finished_status: a final status.
            requests: the scheduler's requests by internal id.
        """
        if not RequestStatus.is_finished(finished_status):
            raise UsageError(f"finish_requests needs a FINISHED_* status, got {finished_status!r}.")
        self._drain_receiver_inbox()
        known = requests if requests is not None else {}
        parked_ids = {request.request_id for parked in self._parking_deques() for request in parked}
        for request_id in _as_ids(request_ids, known):
            request = known.get(request_id)
            if request is not None:
                self._restore_origin_status(request, is_parked=request_id in parked_ids)
            aborted = finished_status.name == "FINISHED_ABORTED"
            self._finish_one(request_id, request, aborted=aborted)
        return []

    def _restore_origin_status(self, request: Any, *, is_parked: bool) -> None:
        segment_stop = request.resumable and request.status == RequestStatus.FINISHED_STOPPED
        if is_parked and (segment_stop or not request.is_finished()):
            request.status = self.requests_origin_status.pop(request.request_id, request.status)

    def _finish_one(self, request_id: str, request: Any, *, aborted: bool) -> None:
        receiver_request = self._receiver_owners.get(request_id)
        external_req_id = self._external_id_for_finish(request_id, request, receiver_request)
        for known in (request, receiver_request):
            self._mark_retired(known)
        self._clear_receiver(request_id)
        self._end_sender(external_req_id, aborted=aborted)

    def _external_id_for_finish(self, request_id: str, *requests: Any) -> str:
        """Find the external id of a request that may be known to nobody but its own stream any more."""
        for request in requests:
            if request is not None and request.external_req_id is not None:
                return str(request.external_req_id)
        mapped = self._external_id_of(request_id)
        with self._sender_state_lock:
            if mapped not in self._sender_tokens:
                for ext, generation in self._sender_tokens.items():
                    if generation.owner.request_id == request_id:
                        return ext
        return mapped


def _as_ids(request_ids: Any, known: Mapping[str, Any]) -> Iterable[str]:
    if request_ids is None:
        return list(known)
    if isinstance(request_ids, str):
        return [request_ids]
    return list(dict.fromkeys(request_ids))


def _connector_config(model_config: Any) -> dict[str, Any]:
    given = getattr(model_config, "stage_connector_config", None) or {}
    if isinstance(given, Mapping):
        name, extra = given.get("name"), given.get("extra")
    else:
        name, extra = getattr(given, "name", None), getattr(given, "extra", None)
    return {"name": name or "SharedMemoryConnector", "extra": dict(extra or {})}


def _import_function(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot import the stage input processor {path!r}: {error}. "
            "Expected the dotted path of a function."
        ) from error
    return function
