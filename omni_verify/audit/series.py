"""A recorded series: one line a sample, appended and flushed, so that a crash loses at most the last line."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from omni_verify.errors import TargetUnusableError, UsageError

__all__ = ["PHASES", "Sample", "Series", "SeriesWriter", "UnwritableError", "read_series"]

# Order in which a soak goes through them; a later one may come back (control phases alternate with load).
PHASES = ("warm-up", "load", "control", "idle", "trim")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at one moment.

    Attributes:
        seconds: monotonic seconds since the series began.
        phase: one of `PHASES`. ``control`` is load without aborts, ``idle`` no load, ``trim`` idle after the
            allocator was asked to give back what it retains.
        started, completed, aborted, failed: requests so far, cumulative over the whole series.
        quiescent: no request was live when the sample was taken, and every stage had drained.
        figures: value by name ``<part>.<figure>``: ``stage0.rss`` (bytes), ``stage0.fds`` (count),
            ``shm.segments`` (count), ``latency.first_audio.p50`` (seconds). A figure that could not be read
            is left out, never zero.
    """

    seconds: float
    phase: str
    started: int = 0
    completed: int = 0
    aborted: int = 0
    failed: int = 0
    quiescent: bool = False
    figures: Mapping[str, float] = {}


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A series as read back: `facts` about the run, its samples, and whether its last line was torn."""

    facts: Mapping[str, object]
    samples: tuple[Sample, ...]
    is_torn: bool = False

    def names(self) -> tuple[str, ...]:
        """Return the names of all figures that any sample has, sorted."""
        return tuple(sorted({name for sample in self.samples for name in sample.figures}))


class UnwritableError(TargetUnusableError):
    """The disk does not take what a long run measures; what it took before is whole."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {str(path)!r}: {error.strerror}. Make room, then go on from there with: "
            f"omni-verify soak --resume {path.parent}"
        )


class SeriesWriter:
    """Appends samples to a file; opened on an existing series it goes on behind it.

    A torn last line, which a crash may have left, is cut off first. What cannot be written whole is not there
    at all.

    Raises:
        UnwritableError: the disk is full.
        UsageError: the file exists and is not a series.
    """

    def __init__(self, path: Path, facts: Mapping[str, object]) -> None:
        self._encoder = msgspec.json.Encoder()
        is_new = not path.exists() or path.stat().st_size == 0
        if not is_new:
            read_series(path)  # a file that is no series is refused before anything in it is cut
            _cut_torn_line(path)
        self._path, self._file = path, path.open("ab", buffering=0)
        if is_new:
            self._write({"series": 1, "facts": dict(facts)})

    def append(self, sample: Sample) -> None:
        """Write one sample and hand it to the operating system."""
        self._write(sample)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, value: object) -> None:
        line, before = self._encoder.encode(value) + b"\n", os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(line) != len(line):  # a disk that is full takes the first part of a line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(before)
            raise UnwritableError(self._path, error) from None


def read_series(path: Path) -> Series:
    """Read a series, also one that is still being written or whose writer was killed.

    Raises:
        UsageError: no such file, not a series, or a damaged line that is not the last one.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the series {path}: {error.strerror}.") from error
    head, *lines = content.split(b"\n")
    facts = _read_head(path, head if lines else b"")
    torn = lines.pop()
    samples = []
    for number, line in enumerate(lines, start=2):
        try:
            samples.append(msgspec.json.decode(line, type=Sample))
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path}, line {number} is not a sample: {error}. Only the last line of a series can be "
                "torn; to go on without this one, take it out."
            ) from None
    return Series(facts=facts, samples=tuple(samples), is_torn=bool(torn))


def _read_head(path: Path, line: bytes) -> Mapping[str, object]:
    try:
        head = msgspec.json.decode(line)
        if head["series"] == 1 and isinstance(head["facts"], dict):
            return head["facts"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        pass
    raise UsageError(f"{path} is not a series: its first line does not say 'series': 1.")


def _cut_torn_line(path: Path) -> None:
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
