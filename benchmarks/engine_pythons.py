"""Interpreters to measure with: one that has the peers, one that can load releases, another minor version."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["other_minor", "with_modules", "with_peers"]

MINORS = ("3.13", "3.12", "3.14", "3.11")
CORE = ("greenlet", "msgspec")
PEERS = ("interleave_test", "frontrun")
PACKAGES = ("greenlet", "msgspec", "interleave-test==0.1.0", "frontrun==0.7.0")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "omni-verify"


def with_modules(modules: Sequence[str], given: Sequence[str] = ()) -> str | None:
    """The first interpreter that imports all of ``modules``: this one, one that was given, one of PATH."""
    return next((p for p in _candidates(given) if _has(p, modules)), None)


def with_peers(given: Sequence[str]) -> tuple[str | None, str]:
    """An interpreter with both peers (interleave-test needs 3.12), else why there is none.

    When none has them, a virtual environment is made once in the user's cache folder.
    """
    found = with_modules((*CORE, *PEERS), given)
    if found is not None:
        return found, ""
    base = next((p for p in _candidates(given) if _minor(p) >= (3, 12)), None)
    if base is None:
        return None, "no Python 3.12 or later on PATH"
    home = CACHE / f"benchmark-{'.'.join(map(str, _minor(base)))}"
    python = home / "bin" / "python"
    for command in (
        [base, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "-q", *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    return str(python), ""


def other_minor(than: str, given: Sequence[str]) -> str | None:
    """An interpreter of another minor version that can replay."""
    minor = _minor(than)
    return next((p for p in _candidates(given) if _minor(p) != minor and _has(p, CORE)), None)


def _candidates(given: Sequence[str]) -> list[str]:
    on_path = [found for minor in MINORS if (found := shutil.which(f"python{minor}"))]
    kept = [str(p) for p in sorted(CACHE.glob("benchmark-*/bin/python"), reverse=True)]
    return list(dict.fromkeys([sys.executable, *given, *kept, *on_path]))


def _minor(python: str) -> tuple[int, ...]:
    text = _answer(python, "import sys; print(*sys.version_info[:2])")
    return tuple(map(int, text.split()))


def _has(python: str, modules: Sequence[str]) -> bool:
    names = ", ".join(repr(module) for module in modules)
    test = f"from importlib.util import find_spec; print(all(map(find_spec, [{names}])))"
    return _answer(python, test).strip() == "True"


def _answer(python: str, code: str) -> str:
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout
