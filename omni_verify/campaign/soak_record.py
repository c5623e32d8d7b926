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
    """What requests add to what lies there at rest.

    Attributes:
        request: count or bytes that each request adds, by what it is.
        left: what each request adds that its client left, beyond that.
    """

    request: dict[str, float] = {}
    left: dict[str, float] = {}


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
        leak: what requests add to what lies there at rest.
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
    leak: Leak
    unread_per_abort: float
    latency: dict[str, dict[str, float]]
    points: tuple[Point, ...]
    phases: tuple[str, ...]
    trend: tuple[str, ...] = ()


def leak_of(points: tuple[Point, ...]) -> Leak:
    """Fit what lies there at quiescent points as ``a x requests + b x left requests`` (least squares).

    Control phases tell the two apart. Without leavers, or without a control phase, only one can be told.
    """
    first = points[0] if points else None
    rows = [(p.started - first.started, p.aborted - first.aborted, p) for p in points[1:] if first]
    request, left = {}, {}
    for name in ("segments", "locks", "bytes", "entries"):
        values = [(x, y, getattr(p, name) - getattr(first, name)) for x, y, p in rows]
        a, b = _solve(values)
        request[name], left[name] = round(a, 4), round(b, 4)
    return Leak(request=request, left=left)


def _solve(rows: list[tuple[int, int, int]]) -> tuple[float, float]:
    xx, xy, yy = (
        sum(x * x for x, _, _ in rows),
        sum(x * y for x, y, _ in rows),
        sum(y * y for _, y, _ in rows),
    )
    xz, yz = sum(x * z for x, _, z in rows), sum(y * z for _, y, z in rows)
    spread = xx * yy - xy * xy
    if spread > 1e-9 * max(1, xx * yy):
        return (xz * yy - yz * xy) / spread, (yz * xx - xz * xy) / spread
    return (0.0, yz / yy) if yy else (xz / xx if xx else 0.0, 0.0)


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
