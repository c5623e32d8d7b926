"""What a target must offer so that every scenario, the explorer and the fuzzer can drive it.

A target hands out *its own* objects: the harness never wraps a connector or an adapter in a proxy,
because vllm-omni's abort path tests the connector's class and a proxy silently switches the
reclaim off (W17). It instruments by replacing names in the target's modules and by patching
methods on instances (`engine.instrument`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import msgspec

__all__ = ["Capabilities", "ModuleRole", "Target", "TargetInfo"]

ModuleRole = str
"""Role of one of the target's modules: ``connector`` (the shared-memory connector), ``segments``
(the functions that create, fill and read a segment), ``adapter_base``, ``adapter``, ``stdlib_shm``."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a target can do; unknown means not claimed.

    Attributes:
        connector: it has a connector.
        adapter: it has a chunk transfer adapter.
        posix_shm: payloads are POSIX shared-memory segments with lock files (the audit can list them).
        reap: the connector has `reap_consumed`.
        cleanup_prefix: the connector has `cleanup_prefix`.
        release: the adapter has `release_shm_resources` (or its equivalent).
        wakeups: arrival hints through FIFOs.
        deadline: the adapter reports requests that wait too long.
        send_failures: the adapter reports failed sends.
        receive_failures: the adapter reports failed receives.
        active_stream_window: the adapter bounds the streams that receive at once.
        forced_terminal: `save_async` takes `force_request_finished`.
        forkable: a process that loaded it may fork (one zygote serves every case).
    """

    connector: bool = True
    adapter: bool = True
    posix_shm: bool = True
    reap: bool = False
    cleanup_prefix: bool = False
    release: bool = False
    wakeups: bool = False
    deadline: bool = False
    send_failures: bool = False
    receive_failures: bool = False
    active_stream_window: bool = False
    forced_terminal: bool = False
    forkable: bool = True

    def claimed(self) -> tuple[str, ...]:
        """Names of the capabilities that are claimed, sorted."""
        return tuple(sorted(f for f in self.__struct_fields__ if getattr(self, f)))


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says about the target of a run."""

    name: str
    version: str = ""
    connector: str = "SharedMemoryConnector"
    loader: str = ""
    origin: str = ""
    capabilities: tuple[str, ...] = ()


@runtime_checkable
class Target(Protocol):
    """A system under test. One process loads at most one (module names collide between releases)."""

    spec: str
    """How the user named it, for example ``vllm-omni==0.30.0``."""

    def prepare(self) -> None:
        """Do what may be done once and outside the loading process (fetch a release).

        Raises:
            TargetUnusableError: it cannot be had or is not what its name says.
        """

    def load(self) -> None:
        """Import the target into this process.

        Raises:
            TargetUnusableError: it does not import; the message names the missing piece.
        """

    @property
    def info(self) -> TargetInfo:
        """Name, version, loader and capabilities; valid after `load`."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; valid after `load`."""

    def modules(self) -> Mapping[ModuleRole, Sequence[ModuleType]]:
        """The target's modules by role, for instrumentation; several modules may share a role."""

    def create_connector(self, stage_id: int, extra: Mapping[str, Any] | None = None) -> Any:
        """Build the connector under test alone, for `stage_id`."""

    def register_connector(self, name: str, factory: Callable[[dict[str, Any]], Any]) -> None:
        """Make `create_adapter(connector=name)` use `factory(config)` (third-party connectors)."""

    def create_adapter(
        self,
        stage_id: int,
        *,
        worker_type: str = "generation",
        receives: bool = True,
        max_num_seqs: int = 16,
        active_stream_window: int = 0,
        connector: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        """Build a chunk transfer adapter with its own connector and its running threads.

        Args:
            stage_id: this stage; it sends to ``stage_id + 1`` and receives from ``stage_id - 1``.
            worker_type: ``"ar"`` or ``"generation"``.
            receives: whether the stage receives chunks (its resolved ``async_chunk``).
            max_num_seqs: scheduler bound on running requests.
            active_stream_window: streams that may receive at once, 0 for no bound.
            connector: registered name, None for the connector under test.
            extra: more entries of the connector's config (chunk sizes, ``wakeup_scope``).
        """

    def set_processor(self, adapter: Any, processor: Callable[..., Any] | None) -> None:
        """Use `processor` as the adapter's producer-side processor (signature of vllm-omni's)."""

    def create_request(self, request_id: str, external_req_id: str, *, resumable: bool = False) -> Any:
        """Build a request that the adapter accepts, in status WAITING, with no prompt tokens."""

    def status(self, name: str) -> Any:
        """Return the target's request status of that name, for example ``FINISHED_ABORTED``."""

    def payload(self, codes: Any | None = None, left_context_size: int | None = None, **meta: Any) -> Any:
        """Build the producer-side payload struct with ``codes.audio`` and ``meta`` fields set.

        ``codes`` is a 1-D int64 tensor of length Q*T (codebook-major) or None.
        """

    def serialize(self, payload: Any) -> bytes:
        """Encode a payload with the target's own serializer."""

    def deserialize(self, raw: bytes) -> Any:
        """Decode bytes with the target's own serializer; structs come back as dicts."""
