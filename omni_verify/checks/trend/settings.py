"""Named thresholds of the trend verdict, each with the reason of its default.

The rates that these defaults give are measured by ``benchmarks/trend_calibration.py`` and published in
``docs/reference/trend.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_type_hints

import msgspec

from omni_verify.errors import UsageError, unknown_value

__all__ = ["TrendSettings", "settings_from"]


class TrendSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of `judge_trend`. Figures are chosen by glob on ``<part>.<figure>``.

    Attributes:
        request_bytes: bytes that one completed request may add. 64: an id that is remembered in a dictionary
            costs more than 100, and 64 are 6 MB after 100,000 requests.
        abort_bytes: bytes that one abort may add. 48: a leak of 64 bytes per abort, the smallest that we
            seed, must not pass; the leak reported as vllm-omni#6352 was 45,000.
        objects_each: live objects that one request or abort may add. 0.5: a record of every request is one
            object at least; caches that fill slowly add less.
        resident_slack: bytes that an allocator may hold free and fill before resident memory shows it. 512
            KiB: stages of the reference held 270 to 440 KB free after their warm-up. Resident memory alone
            acquits only of what would have filled it.
        coarse_request_bytes, coarse_abort_bytes: budgets of resident memory where heap in use and live
            objects keep the fine ones, so that it must show no more than mappings and stacks; and of `blind`
            parts. 256 and 1,024: a name that a resource tracker never forgets (W29) is about 150 bytes, and a
            request has several.
        confidence: of each one-sided bound. 0.975: one flat figure in 40 exceeds its bound by chance, and a
            violation needs two figures.
        minimum_blocks, maximum_blocks: how many blocks a fit has. 12 to 30: fewer have no power, more
            follow the noise (measured false alarms at 60 blocks: four times the nominal rate).
        block_correlations: least length of a block in correlation times. 2: what is left of the correlation
            between neighbours is then small enough to be corrected for.
        block_statistic: what stands for a block. ``mean``: more power; ``minimum``: blind to bursts of live
            requests when no sample is quiescent.
        minimum_samples: fewest samples of a phase that are fitted. 24: two a block at the fewest blocks.
        warm_up_requests: requests that are cut in front when the series has no ``warm-up`` phase, and behind
            every restart of a process. 500: pools, caches and arenas of the reference are filled by then.
        largest_cut: share of the samples that the search for the end of the warm-up may cut. 0.5: a series
            of which more than half is warm-up has not been long enough.
        quiescent_points: fewest quiescent samples on which a discrete figure is judged. 4: one a quarter.
        trim_share: share of the growth that must come back on a trim to be called retained. 0.8: pages that
            are pinned by a live object next door never come back, so 1.0 is out of reach.
        resident: resident bytes of a part; they decide.
        unshared: witnesses that see the same pages as `resident`, without shared ones.
        blind: parts that carry no payload and tell nothing of their heap: resource tracker, parent.
        in_use: bytes that the program has asked for and not given back; the allocator's retention is not in
            them.
        objects: counts of live objects; the small ones of CPython lie in arenas that no C heap figure
            shows.
        empty: discrete figures that are zero at every quiescent point.
        steady: discrete figures that do not grow from one quiescent point to the next.
        containers: lengths of containers; steady as well, told as one for each part while none grows.
        ignored: figures that are shown and never judged; a part of the harness itself belongs here.
    """

    request_bytes: float = 64.0
    abort_bytes: float = 48.0
    objects_each: float = 0.5
    resident_slack: float = 524_288.0
    coarse_request_bytes: float = 256.0
    coarse_abort_bytes: float = 1_024.0
    confidence: float = 0.975
    minimum_blocks: int = 12
    maximum_blocks: int = 30
    block_correlations: float = 2.0
    block_statistic: Literal["mean", "minimum"] = "mean"
    minimum_samples: int = 24
    warm_up_requests: int = 500
    largest_cut: float = 0.5
    quiescent_points: int = 4
    trim_share: float = 0.8
    resident: tuple[str, ...] = ("*.rss",)
    unshared: tuple[str, ...] = ("*.uss",)
    blind: tuple[str, ...] = ("tracker", "parent")
    in_use: tuple[str, ...] = ("*.heap", "*.heap_used", "*.python_bytes")
    objects: tuple[str, ...] = ("*.blocks", "*.objects")
    empty: tuple[str, ...] = (
        "shm.segments",
        "shm.locks",
        "shm.bytes",
        "*.containers",
        "*.pending_keys",
        "*.in_flight",
        "*.save_queue",
        "*.unread",
    )
    steady: tuple[str, ...] = (
        "*.fds",
        "*.threads",
        "*.shm_mappings",
        "*.mappings",
        "*.children",
        "shm.fifos",
        "shm.spares",
    )
    containers: tuple[str, ...] = ("*.size.*",)
    ignored: tuple[str, ...] = ("driver.*", "latency.*")

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1:
            raise UsageError(f"confidence must lie between 0.5 and 1, got {self.confidence}.")
        if not 3 <= self.minimum_blocks <= self.maximum_blocks:
            raise UsageError(
                f"blocks must satisfy 3 <= minimum <= maximum, got {self.minimum_blocks} and "
                f"{self.maximum_blocks}."
            )
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{name} must be a finite number, got {value}.")
        if min(self.request_bytes, self.abort_bytes, self.block_correlations) <= 0:
            raise UsageError("budgets and the length of a block must be positive.")
        if not 0 <= self.largest_cut < 1:
            raise UsageError(f"largest_cut must lie in [0, 1), got {self.largest_cut}.")


def settings_from(assignments: Sequence[str]) -> TrendSettings:
    """Return the defaults with some changed, each given as ``NAME=VALUE``; several globs as ``NAME=A,B``.

    Raises:
        UsageError: no such threshold, a value of another kind, or one that cannot be.
    """
    kinds = get_type_hints(TrendSettings)
    changed: dict[str, object] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if name not in kinds:
            raise unknown_value("threshold", name, kinds, hint="Meaning: docs/reference/trend.md.")
        if not equals or not text:
            raise UsageError(f"a threshold is given as NAME=VALUE; got {assignment!r}.")
        is_globs = kinds[name] == tuple[str, ...]
        try:
            value = text.split(",") if is_globs else text
            changed[name] = msgspec.convert(value, kinds[name], strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"threshold {name}: {text!r} does not fit. {error}.") from None
    return TrendSettings(**changed)  # type: ignore[arg-type]
