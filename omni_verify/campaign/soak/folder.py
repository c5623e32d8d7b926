"""The folder of a soak: its own while it runs, and gone again if the soak never began."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from omni_verify.campaign.soak.record import SERIES
from omni_verify.campaign.store import RunStore
from omni_verify.errors import UsageError

__all__ = ["locked", "run_folder"]


@contextlib.contextmanager
def run_folder(root: Path | None, name: str) -> Iterator[tuple[Path, RunStore | None]]:
    """Yield a new folder in the run store, or one that is removed afterwards when there is no store.

    A soak that ends before its first sample, for its target has another name or does not come up, leaves
    nothing in the store, and ``latest`` points to where it pointed.

    Raises:
        UsageError: the folder cannot be made.
    """
    if root is None:
        with tempfile.TemporaryDirectory(prefix="omni-verify-soak-") as folder:
            yield Path(folder), None
        return
    latest = root / "latest"
    before = os.readlink(latest) if latest.is_symlink() else ""
    is_new = not root.exists()
    store = RunStore(root, "soak", name)
    try:
        with locked(store.path):
            yield store.path, store
    except BaseException:
        series = store.path / SERIES
        if not series.exists() or not series.stat().st_size:
            shutil.rmtree(store.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                _point_back(latest, store.path.name, before)
                if is_new:
                    root.rmdir()
        raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second soak out of a folder: it would write into the same series.

    Raises:
        UsageError: there is no such folder, or a soak runs in it.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(
            f"{str(folder)!r} is no folder of a soak: {error.strerror}. Name one of the run store, for "
            "example reports/latest."
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UsageError(
            f"a soak is still running in {str(folder)!r}. End it first; omni-verify report shows it."
        ) from None
    except OSError:  # some network file systems have no such locks
        pass
    try:
        yield
    finally:
        os.close(handle)


def _point_back(latest: Path, name: str, before: str) -> None:
    """Undo what the store did to ``latest``, unless another run has done so since."""
    if not latest.is_symlink() or os.readlink(latest) != name:
        return
    if not before:
        latest.unlink()
        return
    draft = latest.with_name(f".latest-{os.getpid()}")
    draft.symlink_to(before)
    draft.replace(latest)
