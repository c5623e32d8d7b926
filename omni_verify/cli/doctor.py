"""``omni-verify doctor``: can this machine check what you want to check?"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

import msgspec
import typer

from omni_verify.campaign import isolation
from omni_verify.cli import options
from omni_verify.errors import TargetUnusableError
from omni_verify.report import consoles, write_json

__all__ = ["Probe", "doctor", "examine"]

SHM = Path("/dev/shm")
SHM_WANTED = 256 << 20
"""Bytes of /dev/shm below which large payloads may not fit."""
ISOLATED_PACKAGES = {
    "numpy": "numpy",
    "omegaconf": "omegaconf",
    "PIL": "pillow",
    "prettytable": "prettytable",
    "prometheus_client": "prometheus_client",
    "yaml": "pyyaml",
}
"""What real releases import besides torch: module -> package."""
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class Probe(msgspec.Struct, frozen=True):
    """One line: what was looked at, how it is, and what to do when it is not well."""

    id: str
    state: Literal["ok", "warn", "fail"]
    text: str
    fix: str = ""


def doctor(json: options.Json = None, quiet: options.Quiet = False) -> None:
    """Examine the environment; each line is ok, warn or fail with the fix. Exits 4 on fail."""
    probes = list(examine())
    if json:
        write_json(json, probes)
    elif not quiet:
        out, _ = consoles()
        for probe in probes:
            out.print(f"[{STYLES[probe.state]}]{probe.state.ljust(4)}[/]", end="  ")
            out.print(f"{probe.id.ljust(12)} {probe.text}", markup=False)
            if probe.fix:
                out.print(f"{' ' * 19}fix: {probe.fix}", markup=False)
    if any(probe.state == "fail" for probe in probes):
        raise typer.Exit(TargetUnusableError.exit_code)


def examine() -> Iterator[Probe]:
    """Look at everything that the commands rely on."""
    yield _python()
    yield from _shared_memory()
    yield _namespace()
    yield _torch()
    yield _packages()
    yield _pip()
    yield _cache()


def _python() -> Probe:
    text = f"{platform.python_version()} on {platform.system()}"
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Probe("python", "fail", text, "use Python 3.11, 3.12 or 3.13")
    if sys.platform != "linux":
        return Probe("python", "fail", text, "use Linux: POSIX shared memory, flock and /proc are needed")
    return Probe("python", "ok", text)


def _shared_memory() -> Iterator[Probe]:
    if not SHM.is_dir() or not os.access(SHM, os.W_OK | os.X_OK):
        yield Probe("shm", "fail", f"{SHM} is missing or not writable", f"mount a tmpfs on {SHM} (mode 1777)")
        return
    usage = shutil.disk_usage(SHM)
    text = f"{SHM}: {usage.free >> 20} MiB free of {usage.total >> 20} MiB"
    if usage.free < SHM_WANTED:
        yield Probe("shm", "warn", text, "enlarge it (containers: --shm-size=1g), or free what is in it")
    else:
        yield Probe("shm", "ok", text)


def _namespace() -> Probe:
    mode, reason = isolation.choose("auto")
    if mode == "mount":
        return Probe(
            "namespace", "ok", "private mount namespaces are permitted: exact audit, full-disk scenarios"
        )
    return Probe(
        "namespace",
        "warn",
        f"no private mount namespace ({reason}): key prefixes are used and some scenarios do not apply",
        "run as root, with CAP_SYS_ADMIN, or permit unprivileged user namespaces",
    )


def _torch() -> Probe:
    if importlib.util.find_spec("torch") is None:
        return Probe(
            "torch",
            "warn",
            "not installed: neither the reference nor vllm-omni can be checked",
            "pip install 'omni-verify[pipeline]'",
        )
    return Probe("torch", "ok", metadata.version("torch"))


def _packages() -> Probe:
    missing = [p for m, p in ISOLATED_PACKAGES.items() if importlib.util.find_spec(m) is None]
    if missing:
        text = f"vllm-omni targets lack: {', '.join(missing)}"
        return Probe("packages", "warn", text, "pip install 'omni-verify[vllm-omni]'")
    vllm = (
        "vllm is importable (native loader)" if importlib.util.find_spec("vllm") else "isolated loader only"
    )
    return Probe("packages", "ok", f"everything that vllm-omni targets import; {vllm}")


def _pip() -> Probe:
    if importlib.util.find_spec("pip") is None:
        return Probe(
            "pip",
            "warn",
            "not importable: vllm-omni==VERSION cannot be fetched",
            "python -m ensurepip, or vllm-omni@PATH",
        )
    return Probe("pip", "ok", metadata.version("pip"))


def _cache() -> Probe:
    from omni_verify.targets.vllm_omni.fetch import cache_folder

    folder = cache_folder()
    place = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(place, os.W_OK):
        return Probe(
            "cache", "warn", f"{folder} cannot be written", "set OMNI_VERIFY_CACHE to a writable folder"
        )
    return Probe("cache", "ok", str(folder))
