"""Sees files come and go in shared memory, in the kernel's order (inotify)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec

from omni_verify.audit.live_audit import has_prefix
from omni_verify.audit.meaning import Meaning, meaning_of
from omni_verify.contracts.keys import SHM_ROOT
from omni_verify.errors import TargetUnusableError

__all__ = ["Sighting", "Watch", "WatchCounts"]

_TURN_MS = 250


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """One file came or went.

    Attributes:
        seconds: since the watch began.
        action: ``created``, ``removed``, or ``lost`` (the kernel's queue overflowed; name is empty).
        name: path below the watched folder.
        meaning: what the name says; None for a foreign one.
    """

    seconds: float
    action: str
    name: str
    meaning: Meaning | None = None


class WatchCounts(msgspec.Struct, kw_only=True):
    """What a watch has seen so far: sightings by kind, most segments at a time, overflows of the queue."""

    seconds: float = 0.0
    created: dict[str, int] = {}
    removed: dict[str, int] = {}
    present: int = 0
    most_present: int = 0
    lost: int = 0


class Watch:
    """Watches a folder and the wake directories in it; use as a context manager.

    Files that were there before are not sighted; those that a new wake directory already holds when it is
    first looked into are.

    Args:
        root: the shared-memory directory.
        prefix: only keys of external ids with this prefix; empty also shows wake directories.

    Raises:
        TargetUnusableError: inotify-simple is not installed, or the kernel refuses the watch.
    """

    def __init__(self, root: str = SHM_ROOT, prefix: str = "") -> None:
        self.counts = WatchCounts()
        self._root, self._prefix = root, prefix
        self._began = time.monotonic()
        self._known: dict[str, set[str]] = {}
        self._present: set[str] = set()
        self._paths: dict[int, str] = {}
        try:
            import inotify_simple
        except ImportError as error:
            raise TargetUnusableError(
                "watching needs the package inotify-simple: pip install 'omni-verify[soak]'."
            ) from error
        flags = inotify_simple.flags
        self._flags, self._mask = flags, flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
        self._inotify: Any = None
        try:
            self._inotify = inotify_simple.INotify()
            self._add("")
        except OSError as error:
            self.close()
            raise TargetUnusableError(f"cannot watch {root}: {error.strerror}.") from error
        for name in sorted(os.listdir(root)):
            if (meaning := meaning_of(name)) is not None and meaning.kind == "wake":
                self._known[name] = set(self._enter(name))
            elif meaning is not None and meaning.kind == "segment" and self._is_wanted(meaning):
                self._present.add(name)
        self._count_present()

    def run(
        self, seconds: float | None, handle: Callable[[Sighting], None], turn: Callable[[], None]
    ) -> None:
        """Report sightings until the time is over, or until an exception ends it.

        Args:
            seconds: how long; None for ever.
            handle: takes each sighting, in order.
            turn: called after each batch of sightings, and several times a second when there is none.
        """
        end = None if seconds is None else self._began + seconds
        while True:
            left = _TURN_MS if end is None else min(_TURN_MS, round((end - time.monotonic()) * 1000))
            for sighting in self._read(max(0, left)):
                handle(sighting)
            turn()
            if end is not None and time.monotonic() >= end:
                return

    def close(self) -> None:
        """Give the watch back; idempotent."""
        if self._inotify is not None:
            self._inotify.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- parts -----------------------------------------------------------------------------------

    def _read(self, timeout_ms: int) -> Iterator[Sighting]:
        for event in self._inotify.read(timeout=timeout_ms):
            if event.mask & self._flags.Q_OVERFLOW:
                self.counts.lost += 1
                yield Sighting(seconds=self._now(), action="lost", name="")
            elif event.mask & self._flags.IGNORED:  # a watched directory is gone; its removal came by itself
                self._known.pop(self._paths.pop(event.wd, ""), None)
            elif event.wd in self._paths:
                is_new = bool(event.mask & (self._flags.CREATE | self._flags.MOVED_TO))
                yield from self._sight(self._paths[event.wd], event.name, is_new=is_new)
        self.counts.seconds = self._now()

    def _sight(self, directory: str, name: str, *, is_new: bool) -> Iterator[Sighting]:
        path = f"{directory}/{name}" if directory else name
        meaning = meaning_of(path)
        if meaning is None:
            if not self._prefix and not directory:
                yield self._sighting(path, None, is_new=is_new)
            return
        known = self._known.setdefault(directory, set())
        if directory:  # a new directory is listed once, and its events may tell of the same files
            if is_new == (name in known):
                return
            (known.add if is_new else known.discard)(name)
        if not self._is_wanted(meaning):
            return
        yield self._sighting(path, meaning, is_new=is_new)
        if meaning.kind == "wake" and is_new:
            for inner in self._enter(path):
                yield from self._sight(path, inner, is_new=True)

    def _sighting(self, path: str, meaning: Meaning | None, *, is_new: bool) -> Sighting:
        kind = "foreign" if meaning is None else meaning.kind
        table = self.counts.created if is_new else self.counts.removed
        table[kind] = table.get(kind, 0) + 1
        if kind == "segment":
            (self._present.add if is_new else self._present.discard)(path)
            self._count_present()
        action = "created" if is_new else "removed"
        return Sighting(seconds=self._now(), action=action, name=path, meaning=meaning)

    def _count_present(self) -> None:
        self.counts.present = len(self._present)
        self.counts.most_present = max(self.counts.most_present, len(self._present))

    def _is_wanted(self, meaning: Meaning) -> bool:
        return not self._prefix or (bool(meaning.key) and has_prefix(meaning.key, self._prefix))

    def _enter(self, directory: str) -> list[str]:
        """Watch a wake directory and return what it holds already."""
        try:
            self._add(directory)
            return sorted(os.listdir(os.path.join(self._root, directory)))
        except OSError:  # it went again, or belongs to another user
            return []

    def _add(self, directory: str) -> None:
        wd = self._inotify.add_watch(os.path.join(self._root, directory), self._mask)
        self._paths[wd] = directory

    def _now(self) -> float:
        return time.monotonic() - self._began
