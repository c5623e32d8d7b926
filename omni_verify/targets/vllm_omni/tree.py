"""Where a vllm-omni source tree lies on disk and which version it is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from omni_verify.errors import TargetUnusableError

__all__ = ["find_root", "installed_root", "read_version"]

_NEEDED = (
    "distributed/omni_connectors/connectors/shm_connector.py",
    "distributed/omni_connectors/transfer_adapter/chunk_transfer_adapter.py",
    "entrypoints/stage_utils.py",
    "data_entry_keys.py",
)
_VERSION = re.compile(r"^(?:__version__\s*=.*|version\s*=\s*)[\"'](?P<v>[^\"']+)[\"']", re.MULTILINE)


def find_root(path: Path, spec: str) -> Path:
    """Return the folder that holds the package ``vllm_omni``: a checkout, an unpacked wheel, or the package.

    Raises:
        TargetUnusableError: the path is not such a tree; the message names what is missing.
    """
    path = path.expanduser().absolute()
    if path.suffix == ".whl" and path.is_file():
        raise TargetUnusableError(
            f"cannot use {spec}: {path} is a packed wheel. Unpack it first: python -m zipfile -e {path} DIR"
        )
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise TargetUnusableError(
            f"cannot use {spec}: {path} {what}; expected a vllm-omni checkout or an unpacked wheel."
        )
    root = path.parent if path.name == "vllm_omni" and not (path / "vllm_omni").is_dir() else path
    if not (root / "vllm_omni").is_dir():
        raise TargetUnusableError(
            f"cannot use {spec}: {path} is no vllm-omni tree, it has no folder vllm_omni. "
            "Give the root of a checkout or of an unpacked wheel."
        )
    missing = [name for name in _NEEDED if not (root / "vllm_omni" / name).is_file()]
    if missing:
        raise TargetUnusableError(
            f"cannot use {spec}: {path} is no usable vllm-omni tree, it lacks vllm_omni/"
            f"{', vllm_omni/'.join(missing)}."
        )
    return root


def installed_root() -> Path | None:
    """Return the folder of the installed ``vllm_omni`` without importing it, None when there is none."""
    found = importlib.util.find_spec("vllm_omni")
    locations = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(locations[0]).parent if locations else None


def read_version(root: Path) -> str:
    """Read the version of the tree from its metadata or its generated version file; empty when unknown."""
    for info in sorted(root.glob("vllm_omni-*.dist-info")):
        return info.name.removesuffix(".dist-info").partition("-")[2]
    generated = root / "vllm_omni" / "_version.py"
    match = _VERSION.search(generated.read_text()) if generated.is_file() else None
    return match["v"] if match else ""
