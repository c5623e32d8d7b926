"""Chunk transfer between adjacent stages: the sound counterpart of vllm-omni's transfer adapter.

``chunk_transfer_adapter`` is the face; ``admission``, ``sending`` and ``failed_stream`` are the sending side,
``receiver`` and ``parking`` the receiving one, ``base`` the two threads.
"""

from omni_verify.pipeline.transfer_adapter.base import OmniTransferAdapterBase
from omni_verify.pipeline.transfer_adapter.chunk_transfer_adapter import (
    OmniChunkTransferAdapter,
    stage_receives_chunks,
)

__all__ = ["OmniChunkTransferAdapter", "OmniTransferAdapterBase", "stage_receives_chunks"]
