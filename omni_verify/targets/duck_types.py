"""What a real adapter is built from and fed with, for targets that share vllm-omni's shapes."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

__all__ = ["adapter_config", "omni_payload"]


def adapter_config(
    stage_id: int,
    *,
    worker_type: str = "generation",
    receives: bool = True,
    max_num_seqs: int = 16,
    active_stream_window: int = 0,
    connector: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> SimpleNamespace:
    """Build the configuration that a chunk transfer adapter is constructed with.

    The objects are duck types: the adapters read these attributes and no others. The stage id is put into the
    connector's `extra` as well: until 0.28 vllm-omni's connector takes it from nowhere else.

    Args and defaults: those of `Target.create_adapter`.
    """
    model_config = SimpleNamespace(
        stage_id=stage_id,
        worker_type=worker_type,
        async_chunk=receives,
        active_stream_window=active_stream_window,
        max_num_seqs=max_num_seqs,
        max_model_len=0,
        hf_config=None,
        hf_config_name=None,
        custom_process_next_stage_input_func=None,
        stage_connector_config={
            "name": connector or "SharedMemoryConnector",
            "extra": {**(extra or {}), "stage_id": stage_id},
        },
    )
    return SimpleNamespace(
        model_config=model_config, scheduler_config=SimpleNamespace(max_num_seqs=max_num_seqs)
    )


def omni_payload(schema: Any, codes: Any | None, left_context_size: int | None, meta: dict[str, Any]) -> Any:
    """Build an ``OmniPayloadStruct`` of `schema`; parts that nothing is known of stay out of the message."""
    fields = meta if left_context_size is None else {**meta, "left_context_size": left_context_size}
    return schema.OmniPayloadStruct(
        codes=None if codes is None else schema.CodesStruct(audio=codes),
        meta=schema.MetaStruct(**fields) if fields else None,
    )
