"""The native loader: the whole vllm-omni package beside a vllm that is really installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from omni_verify.errors import TargetUnusableError
from omni_verify.targets.vllm_omni.parts import Parts, import_parts, require_fresh_process

__all__ = ["is_available", "load"]


def is_available() -> bool:
    """Tell whether a vllm can be imported here (nothing is imported to find out)."""
    return importlib.util.find_spec("vllm") is not None


def load(root: Path, spec: str) -> Parts:
    """Import ``vllm_omni`` from `root` with its own ``__init__`` files and the installed vllm.

    Raises:
        TargetUnusableError: vllm is not installed, another vllm_omni is loaded, or the import fails (for
            example because vllm's version does not fit the release).
    """
    if not is_available():
        raise TargetUnusableError(
            f"cannot load {spec} with the native loader: vllm is not installed. Install it with "
            "python -m pip install 'omni-verify[vllm]', or use --loader isolated, which needs no vllm."
        )
    require_fresh_process(spec)
    sys.path.insert(0, str(root))
    try:
        importlib.import_module("vllm_omni")  # adds WAITING_FOR_CHUNK to vllm's RequestStatus
    except Exception as error:  # the import runs vllm and platform code: anything may come out
        sys.path.remove(str(root))
        raise TargetUnusableError(
            f"{spec} does not import with the native loader: {type(error).__name__}: {error}. Its vllm may "
            "have another version than the release expects; --loader isolated needs no vllm."
        ) from error
    return import_parts(spec, "native")
