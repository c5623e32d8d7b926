"""The reference pipeline's connector and adapter behind the `Target` protocol."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import omni_verify
from omni_verify.errors import TargetUnusableError, unknown_value
from omni_verify.targets.capability import adapter_capabilities
from omni_verify.targets.duck_types import adapter_config, omni_payload
from omni_verify.targets.name_use import names_used
from omni_verify.targets.protocol import Capabilities, ModuleRole, Target, TargetInfo

__all__ = ["ReferenceTarget"]

_PIPELINE = "omni_verify.pipeline"
_CONNECTOR_MODULES = ("shm_connector", "lockfile", "journal", "wakeup")
_ADAPTER = f"{_PIPELINE}.transfer_adapter"


class ReferenceTarget:
    """The sound implementation of this package, or a seeded variant of it."""

    def __init__(self, spec: str = "reference", *, apply: Callable[[Target], None] | None = None) -> None:
        """Describe the target; `apply` turns the loaded reference into a variant (``reference@M33``)."""
        self.spec = spec
        self._apply = apply
        self._modules: dict[ModuleRole, tuple[ModuleType, ...]] = {}
        self._capabilities = Capabilities()

    def prepare(self) -> None:
        """Do nothing: the reference is part of this installation."""

    def load(self) -> None:
        """Import the pipeline; a second call does nothing.

        Raises:
            TargetUnusableError: torch or another package of the extra ``pipeline`` is missing.
        """
        if self._modules:
            return
        try:
            import torch

            torch.set_num_threads(1)
            self._modules = _import_modules()
        except ImportError as error:
            raise TargetUnusableError(
                f"the reference pipeline does not import: {error}. Install what it needs with: "
                "python -m pip install 'omni-verify[pipeline]'"
            ) from error
        if self._apply is not None:
            self._apply(self)
        for module in itertools.chain.from_iterable(self._modules.values()):
            names_used(module)
        connector, adapter = self.connector_class, self.adapter_class
        save = inspect.signature(adapter.save_async).parameters
        self._capabilities = adapter_capabilities(
            connector,
            adapter,
            forced_terminal="force_request_finished" in save,
            forkable=threading.active_count() == 1,
        )

    @property
    def info(self) -> TargetInfo:
        """Name, version and capabilities."""
        return TargetInfo(
            name=self.spec,
            version=omni_verify.__version__,
            loader="in-process",
            origin=_PIPELINE,
            capabilities=self._capabilities.claimed(),
        )

    @property
    def capabilities(self) -> Capabilities:
        """What the reference can do."""
        return self._capabilities

    def modules(self) -> Mapping[ModuleRole, Sequence[ModuleType]]:
        """Return the modules whose names instrumentation and variants replace.

        Raises:
            TargetUnusableError: `load` was not called.
        """
        if not self._modules:
            raise TargetUnusableError(f"{self.spec} is not loaded yet; call load() first.")
        return self._modules

    @property
    def connector_class(self) -> Any:
        """The class ``SharedMemoryConnector``."""
        return self.modules()["connector"][0].SharedMemoryConnector

    @property
    def adapter_class(self) -> Any:
        """The class ``OmniChunkTransferAdapter``."""
        return importlib.import_module(_ADAPTER).OmniChunkTransferAdapter

    def create_connector(self, stage_id: int, extra: Mapping[str, Any] | None = None) -> Any:
        """Build a SharedMemoryConnector for the stage."""
        return self.connector_class({**(extra or {}), "stage_id": stage_id})

    def register_connector(self, name: str, factory: Callable[[dict[str, Any]], Any]) -> None:
        """Register a third-party connector with the pipeline's factory.

        Raises:
            UsageError: the name is taken.
        """
        importlib.import_module(f"{_PIPELINE}.factory").OmniConnectorFactory.register_connector(name, factory)

    def create_adapter(self, stage_id: int, **config: Any) -> Any:
        """Build the chunk transfer adapter of one stage; its two threads run when this returns.

        Args: see `Target.create_adapter`.
        """
        return self.adapter_class(adapter_config(stage_id, **config))

    def set_processor(self, adapter: Any, processor: Callable[..., Any] | None) -> None:
        """Use `processor`; it is called with transfer_manager, multimodal_output, request and is_finished."""
        adapter.custom_process_next_stage_input_func = processor

    def create_request(self, request_id: str, external_req_id: str, *, resumable: bool = False) -> Any:
        """Build a request in status WAITING."""
        request_class = importlib.import_module(f"{_PIPELINE}.request").Request
        return request_class(request_id, external_req_id, self.status("WAITING"), resumable=resumable)

    def status(self, name: str) -> Any:
        """Return a member of ``RequestStatus``.

        Raises:
            UsageError: no such status.
        """
        members = importlib.import_module(f"{_PIPELINE}.request").RequestStatus
        if name not in members.__members__:
            raise unknown_value("request status", name, members.__members__)
        return members[name]

    def payload(self, codes: Any | None = None, left_context_size: int | None = None, **meta: Any) -> Any:
        """Build an ``OmniPayloadStruct``; `codes` is a 1-D int64 tensor of Q*T codes, codebook-major."""
        schema = importlib.import_module("omni_verify.contracts.payload_schema")
        return omni_payload(schema, codes, left_context_size, meta)

    def serialize(self, payload: Any) -> bytes:
        """Encode with the pipeline's serializer."""
        return bytes(importlib.import_module(f"{_PIPELINE}.serde").OmniSerializer.serialize(payload))

    def deserialize(self, raw: bytes) -> Any:
        """Decode with the pipeline's serializer."""
        return importlib.import_module(f"{_PIPELINE}.serde").OmniSerializer.deserialize(raw)


def _import_modules() -> dict[ModuleRole, tuple[ModuleType, ...]]:
    """Import every module that the connector and the adapter consist of, by role."""

    def load(name: str) -> ModuleType:
        return importlib.import_module(f"{_PIPELINE}.{name}")

    package = importlib.import_module(_ADAPTER)
    parts = {m.name: load(f"transfer_adapter.{m.name}") for m in pkgutil.iter_modules(package.__path__)}
    return {
        "connector": tuple(load(name) for name in _CONNECTOR_MODULES),
        "segments": (load("segments"),),
        "adapter_base": (parts.pop("base"),),
        "adapter": tuple(parts.values()),
    }
