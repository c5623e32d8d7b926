"""Find out what a connector class and an adapter class can do, by looking at them."""

from __future__ import annotations

from typing import Any

from omni_verify.targets.protocol import Capabilities

__all__ = ["adapter_capabilities"]


def adapter_capabilities(
    connector: Any, adapter: Any, *, forced_terminal: bool = False, forkable: bool = True, **more: bool
) -> Capabilities:
    """Derive the capabilities of a SharedMemoryConnector-like and an OmniChunkTransferAdapter-like class.

    A method that only the base class has does not count: bases define no-ops for optional verbs.

    Args:
        connector: the connector's class.
        adapter: the adapter's class.
        forced_terminal: whether ``save_async`` takes ``force_request_finished``.
        forkable: whether a process that loaded them may fork.
        more: capabilities that the caller knows better.
    """
    found = {
        "reap": "reap_consumed" in vars(connector),
        "cleanup_prefix": "cleanup_prefix" in vars(connector),
        "wakeups": any(name in vars(connector) for name in ("wait_for_change", "wait_for_arrival")),
        "release": hasattr(adapter, "release_shm_resources"),
        "deadline": hasattr(adapter, "collect_timed_out_request_ids"),
        "send_failures": hasattr(adapter, "collect_failed_send_request_ids"),
        "receive_failures": hasattr(adapter, "collect_failed_receive_request_ids"),
        "active_stream_window": hasattr(adapter, "_promote_active_streams"),
    }
    return Capabilities(**{**found, "forced_terminal": forced_terminal, "forkable": forkable, **more})
