"""vllm-omni behind the `Target` protocol, for both loaders and for every release from 0.26.0."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import shared_memory
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.version import Version

from omni_verify.errors import TargetUnusableError, UsageError, unknown_value
from omni_verify.targets.capability import adapter_capabilities
from omni_verify.targets.duck_types import adapter_config, omni_payload
from omni_verify.targets.name_use import names_used
from omni_verify.targets.protocol import Capabilities, ModuleRole, TargetInfo
from omni_verify.targets.vllm_omni import fetch, isolated, native, tree
from omni_verify.targets.vllm_omni.parts import Parts
from omni_verify.targets.vllm_omni.request import TargetRequest

__all__ = ["LOADERS", "VllmOmniTarget"]

LOADERS = ("auto", "isolated", "native")


class VllmOmniTarget:
    """One vllm-omni: installed, a fetched release, or a tree on disk.

    Version differences are found by looking (methods, signatures), never by comparing version numbers, so
    that a checkout of tomorrow works as long as the names do.
    """

    def __init__(
        self, spec: str, *, version: Version | None = None, path: Path | None = None, loader: str = "auto"
    ) -> None:
        """Describe the target; nothing is fetched or imported yet.

        Raises:
            UsageError: unknown loader.
        """
        if loader not in LOADERS:
            raise unknown_value("loader", loader, LOADERS)
        self.spec = spec
        self._version = version
        self._path = path
        self._loader = loader
        self._root: Path | None = None
        self._parts: Parts | None = None
        self._capabilities = Capabilities()

    def prepare(self) -> None:
        """Find the tree, fetching a release when it is not in the cache.

        Raises:
            TargetUnusableError: there is no such release or no usable tree.
        """
        if self._root is not None:
            return
        if self._version is not None:
            self._root = tree.find_root(fetch.fetch(self._version), self.spec)
        elif self._path is not None:
            self._root = tree.find_root(self._path, self.spec)
        else:
            installed = tree.installed_root()
            if installed is None:
                raise TargetUnusableError(
                    "vllm-omni is not installed in this environment. Name a release (vllm-omni==0.30.0, "
                    "fetched into a cache of this tool) or a tree (vllm-omni@PATH)."
                )
            self._root = tree.find_root(installed, self.spec)

    def load(self) -> None:
        """Import the connector and the adapter into this process; a second call does nothing.

        Raises:
            TargetUnusableError: it does not import; the message names the missing piece.
        """
        if self._parts is not None:
            return
        self.prepare()
        assert self._root is not None
        self._loader = self._choose_loader()
        loader = native.load if self._loader == "native" else isolated.load
        self._parts = loader(self._root, self.spec)
        self._capabilities = self._look()
        for module in itertools.chain.from_iterable(self.modules().values()):
            names_used(module)

    def _choose_loader(self) -> str:
        """Resolve ``auto``: native only for the installed vllm-omni beside an installed vllm.

        A fetched release or a checkout beside whatever vllm happens to be installed is a coin toss.
        """
        if self._loader != "auto":
            return self._loader
        is_installed = self._version is None and self._path is None
        return "native" if is_installed and native.is_available() else "isolated"

    def _look(self) -> Capabilities:
        connector, adapter = self.parts.connector.SharedMemoryConnector, self._adapter_class
        save = inspect.signature(adapter.save_async).parameters
        return adapter_capabilities(
            connector,
            adapter,
            forced_terminal="force_request_finished" in save,
            forkable=threading.active_count() == 1 and not _cuda_is_initialised(),
        )

    @property
    def parts(self) -> Parts:
        """The imported modules.

        Raises:
            TargetUnusableError: `load` was not called.
        """
        if self._parts is None:
            raise TargetUnusableError(f"{self.spec} is not loaded yet; call load() first.")
        return self._parts

    @property
    def info(self) -> TargetInfo:
        """Name, version, loader, origin and capabilities."""
        return TargetInfo(
            name="vllm-omni",
            version=tree.read_version(self._root) if self._root else str(self._version or ""),
            loader=self._loader,
            origin=str(self._root or ""),
            capabilities=self._capabilities.claimed(),
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this release can do."""
        return self._capabilities

    def modules(self) -> Mapping[ModuleRole, Sequence[ModuleType]]:
        """Return the modules whose names instrumentation replaces."""
        parts = self.parts
        return {
            "connector": (parts.connector,),
            "segments": (parts.segments,),
            "adapter_base": (parts.adapter_base,),
            "adapter": (parts.adapter,),
            "stdlib_shm": (shared_memory,),
        }

    @property
    def _adapter_class(self) -> Any:
        return self.parts.adapter.OmniChunkTransferAdapter

    def create_connector(self, stage_id: int, extra: Mapping[str, Any] | None = None) -> Any:
        """Build a SharedMemoryConnector for the stage."""
        return self.parts.connector.SharedMemoryConnector({**(extra or {}), "stage_id": stage_id})

    def register_connector(self, name: str, factory: Callable[[dict[str, Any]], Any]) -> None:
        """Register a third-party connector with vllm-omni's factory.

        Raises:
            UsageError: the name is taken.
        """
        try:
            self.parts.factory.OmniConnectorFactory.register_connector(name, factory)
        except ValueError as error:
            raise UsageError(
                f"cannot register the connector {name!r}: {error} Choose another name."
            ) from error

    def create_adapter(self, stage_id: int, **config: Any) -> Any:
        """Build the chunk transfer adapter of one stage; its two threads run when this returns.

        Args: see `Target.create_adapter`.
        """
        return self._adapter_class(adapter_config(stage_id, **config))

    def set_processor(self, adapter: Any, processor: Callable[..., Any] | None) -> None:
        """Use `processor`; it is called with transfer_manager, multimodal_output, request and is_finished."""
        adapter.custom_process_next_stage_input_func = processor

    def create_request(self, request_id: str, external_req_id: str, *, resumable: bool = False) -> Any:
        """Build a request in status WAITING."""
        return TargetRequest(request_id, external_req_id, self.status("WAITING"), resumable=resumable)

    def status(self, name: str) -> Any:
        """Return a member of the target's ``RequestStatus``.

        Raises:
            UsageError: no such status.
        """
        members = self.parts.request.RequestStatus
        if not hasattr(members, name):
            raise unknown_value("request status", name, members.__members__)
        return getattr(members, name)

    def payload(self, codes: Any | None = None, left_context_size: int | None = None, **meta: Any) -> Any:
        """Build an ``OmniPayloadStruct``; `codes` is a 1-D int64 tensor of Q*T codes, codebook-major."""
        return omni_payload(self.parts.schema, codes, left_context_size, meta)

    def serialize(self, payload: Any) -> bytes:
        """Encode with vllm-omni's own serializer."""
        return bytes(self.parts.serializer.OmniSerializer.serialize(payload))

    def deserialize(self, raw: bytes) -> Any:
        """Decode with vllm-omni's own serializer."""
        return self.parts.serializer.OmniSerializer.deserialize(raw)


def _cuda_is_initialised() -> bool:
    import torch

    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
