"""What a soak keeps on disk: its checkpoint, and the summary that a reader opens."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from omni_verify.audit.draft import draft_of
from omni_verify.audit.sampler_latency import PERCENTILES, Histogram
from omni_verify.audit.series import UnwritableError
from omni_verify.campaign.soak.ledger import Counts
from omni_verify.campaign.soak.options import SoakOptions
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


_LEAST_SPREAD = 0.05
"""Squared sine of the angle between requests and left requests below which a fit cannot tell them apart; with
a quarter of the load as control it is about 0.25, without control only the dice of the mix make it."""


_Bucket = Annotated[str, msgspec.Meta(pattern=r"^\d+$")]


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
        drained_s: seconds in which nothing was started and the last requests before a quiescent point ended.
        latency: buckets by latency.
        findings: by case.
        points: quiescent points.
        phases: that have run to their end.
    """

    schema: Literal["omni-verify/soak-checkpoint/1"] = "omni-verify/soak-checkpoint/1"
    options: SoakOptions
    started: str
    next: Annotated[int, msgspec.Meta(ge=0)]
    again: tuple[int, ...] = ()
    elapsed_s: float = 0.0
    drained_s: float = 0.0
    counts: Counts
    latency: dict[str, dict[_Bucket, int]] = {}
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
        rate: requests a second, over the time in which any was in flight.
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
    """Fit what each stretch between quiescent points adds as ``a x requests + b x left requests``.

    Stretches without leavers (control) tell the two apart; where there are none, all is put down to leavers.
    """
    steps = [(q.started - p.started, q.aborted - p.aborted, p, q) for p, q in itertools.pairwise(points)]
    request, left = {}, {}
    for name in ("segments", "locks", "bytes", "entries"):
        rows = [(x, y, getattr(q, name) - getattr(p, name)) for x, y, p, q in steps]
        a, b = _solve(rows)
        request[name], left[name] = round(a, 4), round(b, 4)
    return Leak(request=request, left=left)


def _solve(rows: list[tuple[int, int, int]]) -> tuple[float, float]:
    """Least squares of ``z = a x + b y``; with y nearly in proportion to x ``b`` alone, without y ``a``."""
    xx = sum(x * x for x, _, _ in rows)
    xy = sum(x * y for x, y, _ in rows)
    yy = sum(y * y for _, y, _ in rows)
    xz = sum(x * z for x, _, z in rows)
    yz = sum(y * z for _, y, z in rows)
    spread = xx * yy - xy * xy
    if spread > _LEAST_SPREAD * xx * yy:
        return (xz * yy - yz * xy) / spread, (yz * xx - xz * xy) / spread
    return (0.0, yz / yy) if yy else (xz / xx if xx else 0.0, 0.0)


def percentiles(histogram: Histogram) -> dict[str, float]:
    """Percentiles of a latency in seconds; empty when nothing was measured."""
    if not histogram.total:
        return {}
    return {f"p{p:g}": histogram.percentile(p) for p in PERCENTILES} | {"count": float(histogram.total)}


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint in one step: a reader finds the old one or the new one.

    Raises:
        UnwritableError: it cannot be; the old one is still there.
    """
    try:
        with draft_of(folder / CHECKPOINT) as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(checkpoint)) + b"\n")
    except OSError as error:
        raise UnwritableError(folder / CHECKPOINT, error) from None


def load(folder: Path) -> Checkpoint:
    """Read the checkpoint of a run.

    Raises:
        UsageError: the folder holds none, or one of another kind.
    """
    path = folder / CHECKPOINT
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except OSError as error:
        raise UsageError(
            f"cannot resume {str(folder)!r}: {CHECKPOINT} in it: {error.strerror}. Name the folder of a soak "
            "in the run store, for example reports/latest."
        ) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot resume {str(folder)!r}: {CHECKPOINT} is damaged or of another version of omni-verify: "
            f"{error}. Resume with the version that began the soak; what it has measured is shown by: "
            "omni-verify report."
        ) from None
