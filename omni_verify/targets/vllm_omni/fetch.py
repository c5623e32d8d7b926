"""Releases fetched with pip into a cache folder of the tool, never into the user's environment.

Layout: ``<cache>/vllm-omni/<version>/`` holds an unpacked wheel. It appears by one rename, so that an
interrupted fetch leaves nothing that looks complete, and its own RECORD proves it intact on every use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version

from omni_verify import settings
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.targets.vllm_omni.filelock import exclusive
from omni_verify.targets.vllm_omni.pip_errors import explain
from omni_verify.targets.vllm_omni.record import is_intact

__all__ = ["cache_folder", "fetch", "parse_version"]

_NAME = "vllm-omni"


def cache_folder() -> Path:
    """Return ``$OMNI_VERIFY_CACHE``, else ``omni-verify`` under the XDG cache folder."""
    own = os.environ.get("OMNI_VERIFY_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "omni-verify"


def parse_version(text: str) -> Version:
    """Parse the version of ``vllm-omni==VERSION``.

    Raises:
        UsageError: it is not one exact version.
    """
    try:
        return Version(text)
    except InvalidVersion as error:
        raise UsageError(
            f"{text!r} is not a version. Give one exact release, for example vllm-omni==0.30.0."
        ) from error


def fetch(version: Version) -> Path:
    """Return the folder of the unpacked release; fetch it when it is absent or damaged.

    Safe for concurrent processes: one fetches, the others wait for it (at most `Settings.fetch_s`).

    Raises:
        TargetUnusableError: the release does not exist (the nearest ones are named), pip is missing or cannot
            reach its index, or the cache folder cannot be written.
    """
    folder = cache_folder() / _NAME
    final = folder / canonicalize_version(version, strip_trailing_zero=False)
    if is_intact(final):
        return final
    limit = settings.load().fetch_s
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / f".{final.name}.lock", limit):
            if not is_intact(final):  # another process may have fetched it meanwhile
                _fetch_into(final, version, limit)
    except OSError as error:
        raise TargetUnusableError(
            f"cannot keep {_NAME}=={version} in the cache {folder}: {error}. "
            "Set OMNI_VERIFY_CACHE to a folder that can be written."
        ) from error
    return final


def _fetch_into(final: Path, version: Version, limit: float) -> None:
    with _scratch(final) as scratch:
        wheel = _download(scratch / "wheel", version, limit)
        fresh = scratch / "tree"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(fresh)
        if not is_intact(fresh):
            raise TargetUnusableError(f"the wheel {wheel.name} that pip fetched contradicts its own RECORD.")
        if final.exists():  # damaged: move it aside first, a rename does not replace a full folder
            final.rename(scratch / "damaged")
        fresh.rename(final)


@contextlib.contextmanager
def _scratch(final: Path) -> Iterator[Path]:
    """Give a folder beside `final` and remove it, with those that killed fetches of this release left."""
    prefix = f".fetch-{final.name}-"
    for stale in final.parent.glob(f"{prefix}*"):  # nobody else uses them: the caller holds the lock
        shutil.rmtree(stale, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=final.parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _download(into: Path, version: Version, limit: float) -> Path:
    """Let pip download the wheel alone; it honours the user's index, proxy and certificates."""
    # The release's Requires-Python speaks about its whole stack; the isolated loader needs less of it.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(into), f"{_NAME}=={version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired as error:
        raise TargetUnusableError(
            f"pip did not fetch {_NAME}=={version} within {limit:g} s. Raise OMNI_VERIFY_FETCH_S, or give an "
            f"unpacked wheel: {_NAME}@PATH."
        ) from error
    wheels = sorted(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise explain(_NAME, version, done.stderr)
    return wheels[0]
