"""The isolated loader: a release's own connector and adapter, without vllm and without a GPU.

The packages' ``__init__`` files import models, platforms and vllm; empty package objects with the
right ``__path__`` stand in their place, so that only the 25 to 30 light modules below are read,
unchanged, from the release (article section 7; measured on 0.26.0, 0.28.0 and 0.30.0).
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from omni_verify.errors import TargetUnusableError
from omni_verify.targets.vllm_omni import stubs
from omni_verify.targets.vllm_omni.parts import Parts, import_parts, require_fresh_process

__all__ = ["BARE_PACKAGES", "LIGHT_PACKAGES", "load"]

BARE_PACKAGES = (
    "vllm_omni",
    "vllm_omni.config",
    "vllm_omni.entrypoints",
    "vllm_omni.distributed",
    "vllm_omni.distributed.omni_connectors",
)
"""Packages whose ``__init__`` must not run."""

LIGHT_PACKAGES = {
    "torch": "torch",
    "numpy": "numpy",
    "msgspec": "msgspec",
    "PIL": "pillow",
    "omegaconf": "omegaconf",
    "prometheus_client": "prometheus_client",
    "prettytable": "prettytable",
    "yaml": "pyyaml",
}
"""Import name to distribution of everything that the light modules need."""


def load(root: Path, spec: str) -> Parts:
    """Import the light modules of the tree under `root` (the folder that holds ``vllm_omni``).

    Raises:
        TargetUnusableError: packages are missing, vllm or vllm_omni is already imported, or a module of the
            tree does not import.
    """
    missing = [dist for name, dist in LIGHT_PACKAGES.items() if importlib.util.find_spec(name) is None]
    if missing:
        raise TargetUnusableError(
            f"cannot load {spec}: the isolated loader needs {', '.join(missing)}, which are not installed. "
            "Install them with: python -m pip install 'omni-verify[vllm-omni]'"
        )
    require_fresh_process(spec)
    if "vllm" in sys.modules:
        raise TargetUnusableError(
            f"cannot load {spec} isolated: this process has already imported vllm. Use the native loader, or "
            "start a process that has not."
        )
    for name in BARE_PACKAGES:
        _register_bare(name, root)
    stubs.install()
    parts = import_parts(spec, "isolated")
    _one_torch_thread()
    return parts


def _register_bare(name: str, root: Path) -> None:
    module = ModuleType(name, "Empty package of omni-verify's isolated loader.")
    module.__path__ = [str(root.joinpath(*name.split(".")))]
    module.__spec__ = ModuleSpec(name, None, is_package=True)  # find_spec() refuses modules without one
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)


def _one_torch_thread() -> None:
    """Keep torch from starting a thread per core: they disturb timings and make a fork unsafe."""
    import torch

    torch.set_num_threads(1)
