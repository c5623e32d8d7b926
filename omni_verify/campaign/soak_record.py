"""What a soak keeps on disk: its checkpoint, and the summary that a reader opens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from omni_verify.audit.sampler_latency import PERCENTILES, Histogram
from omni_verify.campaign.soak_ledger import Counts
from omni_verify.campaign.soak_options import SoakOptions
from omni_verify.errors import UsageError
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Finding

__all__ = [
    "CHECKPOINT",
    "SERIES",
    "SUMMARY",
    "Checkpoint",
    "Leak",
    "Point",
    "Summary",
    "leak_of",
    "load",
    "save",
]

CHECKPOINT, SERIES, SUMMARY = "checkpoint.json", "series.jsonl", "soak.json"
"""Names of the files of a soak in its folder of the run store."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What lay there at a quiescent point, with nothing live.

    Attributes:
        started, aborted: requests by then.
        segments, locks, bytes: in shared memory.
        entries: of containers that name a request of the run, all stages.
    """

    started: int
    aborted: int
    segments: int = 0
    locks: int = 0
    bytes: int = 0
    entries: int = 0


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """What one request that was left adds at rest, over the whole soak; zero without aborts."""

    segments: float = 0.0
    locks: float = 0.0
    bytes: float = 0.0
    entries: float = 0.0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """From where a soak goes on.

    Attributes:
        next: number of the first request that was not started.
        again: requests that were in flight; they start again.
        elapsed_s: seconds of load so far.
        latency: buckets by latency.
        findings: by case.
        points: quiescent points.
        phases: that have run to their end.
    """

    schema: Literal["omni-verify/soak-checkpoint/1"] = "omni-verify/soak-checkpoint/1"
    options: SoakOptions
    started: str
    next: int
    again: tuple[int, ...] = ()
    elapsed_s: float = 0.0
    counts: Counts
    latency: dict[str, dict[str, int]] = {}
    findings: dict[str, tuple[Finding, ...]] = {}
    points: tuple[Point, ...] = ()
    phases: tuple[str, ...] = ()
    finished: bool = False


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """``soak.json``: the figures of a soak in one object.

    Attributes:
        per_abort: what one left request adds at rest.
        unread_per_abort: chunks that the plans of the leavers left unread, on average.
        latency: percentiles in seconds by latency.
        rate: requests a second, over the phases with load.
        trend: judgements of the trend, as sentences.
    """

    schema: Literal["omni-verify/soak/1"] = "omni-verify/soak/1"
    target: TargetInfo
    options: SoakOptions
    counts: Counts
    elapsed_s: float
    rate: float
    per_abort: Leak
    unread_per_abort: float
    latency: dict[str, dict[str, float]]
    points: tuple[Point, ...]
    phases: tuple[str, ...]
    trend: tuple[str, ...] = ()


def leak_of(points: tuple[Point, ...]) -> Leak:
    """Return what one left request adds: the growth between the first and the last quiescent point."""
    if len(points) < 2:
        return Leak()
    first, last = points[0], points[-1]
    aborted = last.aborted - first.aborted
    if aborted <= 0:
        return Leak()
    return Leak(
        **{
            name: round((getattr(last, name) - getattr(first, name)) / aborted, 4)
            for name in Leak.__struct_fields__
        }
    )


def percentiles(histogram: Histogram) -> dict[str, float]:
    """Percentiles of a latency in seconds; empty when nothing was measured."""
    if not histogram.total:
        return {}
    return {f"p{p:g}": histogram.percentile(p) for p in PERCENTILES} | {"count": float(histogram.total)}


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint in one step: a reader finds the old one or the new one."""
    part = folder / (CHECKPOINT + ".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(checkpoint)) + b"\n")
    part.replace(folder / CHECKPOINT)


def load(folder: Path) -> Checkpoint:
    """Read the checkpoint of a run.

    Raises:
        UsageError: the folder holds none, or one of another kind.
    """
    path = folder / CHECKPOINT
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"cannot resume {str(folder)!r}: {error}. Name the folder of a soak in the run store, for "
            "example reports/latest."
        ) from None
