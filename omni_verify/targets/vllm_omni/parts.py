"""The modules of vllm-omni that a run touches, imported by name after a loader prepared the process."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import msgspec

from omni_verify.errors import TargetUnusableError

__all__ = ["Parts", "import_parts", "require_fresh_process"]

_CONNECTORS = "vllm_omni.distributed.omni_connectors"
_NAMES = {
    "adapter": f"{_CONNECTORS}.transfer_adapter.chunk_transfer_adapter",
    "adapter_base": f"{_CONNECTORS}.transfer_adapter.base",
    "connector": f"{_CONNECTORS}.connectors.shm_connector",
    "factory": f"{_CONNECTORS}.factory",
    "segments": "vllm_omni.entrypoints.stage_utils",
    "schema": "vllm_omni.data_entry_keys",
    "serializer": f"{_CONNECTORS}.utils.serialization",
    "request": "vllm.v1.request",
}
_CLASSES = {
    "adapter": ("OmniChunkTransferAdapter",),
    "connector": ("SharedMemoryConnector",),
    "factory": ("OmniConnectorFactory",),
    "schema": ("OmniPayloadStruct", "CodesStruct", "MetaStruct"),
    "serializer": ("OmniSerializer",),
    "request": ("RequestStatus",),
}


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The imported modules; `request` is ``vllm.v1.request``, real or a stand-in."""

    adapter: ModuleType
    adapter_base: ModuleType
    connector: ModuleType
    factory: ModuleType
    segments: ModuleType
    schema: ModuleType
    serializer: ModuleType
    request: ModuleType


def require_fresh_process(spec: str) -> None:
    """Refuse to load a second vllm-omni into one process: module names collide.

    Raises:
        TargetUnusableError: some ``vllm_omni`` module is already imported.
    """
    if "vllm_omni" in sys.modules:
        where = getattr(sys.modules["vllm_omni"], "__path__", ["?"])
        raise TargetUnusableError(
            f"cannot load {spec}: this process has already imported vllm_omni from {next(iter(where), '?')}. "
            "One process holds one vllm-omni; start another process for the second."
        )


def import_parts(spec: str, loader: str) -> Parts:
    """Import every module of `Parts`.

    Raises:
        TargetUnusableError: a module or a class is missing; the message names it and the loader.
    """
    modules: dict[str, ModuleType] = {}
    for role, name in _NAMES.items():
        try:
            modules[role] = importlib.import_module(name)
        except Exception as error:  # an import runs the target's own code: anything may come out
            raise TargetUnusableError(
                f"{spec} does not import with the {loader} loader: {name} failed with "
                f"{type(error).__name__}: {error}.{_advice(error, loader)}"
            ) from error
        missing = [c for c in _CLASSES.get(role, ()) if not hasattr(modules[role], c)]
        if missing:
            raise TargetUnusableError(f"{spec} is not usable: {name} has no {', '.join(missing)}.")
    return Parts(**modules)


def _advice(error: Exception, loader: str) -> str:
    """Say what most likely helps, from the name that could not be imported."""
    name = getattr(error, "name", None) or ""
    if loader == "isolated" and name.split(".")[0] == "vllm":
        return (
            " The isolated loader has no stand-in for that name (omni_verify/targets/vllm_omni/stubs.py "
            "lists them); install vllm and use the native loader, or add the stand-in."
        )
    if name and name.split(".")[0] not in ("vllm", "vllm_omni"):
        return f" Install the missing package: python -m pip install {name.split('.')[0]}"
    return ""
