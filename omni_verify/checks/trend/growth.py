"""What one request, or one abort, adds to one figure."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from omni_verify.checks.trend.report import Fit
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.text import amount, bounds

__all__ = ["Growth", "Kind", "from_fit", "per_abort"]

Kind = Literal["resident", "unshared", "in_use", "objects"]


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Growth of one figure per request or per abort.

    Attributes:
        figure, kind: which, and which witness it can be.
        estimate, lower, upper, late: as in `Fit`, in bytes (objects: count).
        budget: what it may add.
        requests: requests, or aborts, that the fit spans.
        samples: behind the fit.
        is_rough: as in `Fit`.
        lack: why nothing can be said; empty otherwise.
    """

    figure: str
    kind: Kind
    estimate: float
    lower: float
    upper: float
    late: float
    budget: float
    requests: float
    samples: int
    is_rough: bool = False
    lack: str = ""

    @property
    def grows(self) -> bool:
        """Above the budget beyond doubt, and still in the second half."""
        return not self.lack and self.lower > self.budget and self.late > self.budget

    @property
    def slowed(self) -> bool:
        """Above the budget over the whole, not in the second half: a working set that filled."""
        return not self.lack and self.lower > self.budget >= self.late

    @property
    def is_flat(self) -> bool:
        """Below the budget beyond doubt."""
        return not self.lack and self.upper < self.budget

    @property
    def total(self) -> float:
        """What was added over the whole fit."""
        return self.estimate * self.requests

    @property
    def unit(self) -> str:
        """``bytes`` or ``count``."""
        return "count" if self.kind == "objects" else "bytes"

    @property
    def needs(self) -> int:
        """Further requests (or aborts) that would decide it, if the noise stays: bounds shrink as n^1.5.

        An estimate that may well be zero is taken as zero.
        """
        apart = self.budget if self.lower <= 0 else abs(self.budget - self.estimate)
        width = max(self.upper - self.estimate, self.estimate - self.lower)
        if self.lack or math.isinf(width) or apart <= 0 or width <= 0:
            return 0
        return max(0, math.ceil(self.requests * (math.cbrt(width / apart) ** 2 - 1)))

    def text(self, per: str) -> str:
        """Say the estimate with its bounds."""
        name = self.figure.split(".", 1)[1]
        rough = ", by extremes" if self.is_rough else ""
        return (
            f"{name} {amount(self.estimate, self.unit)} {per} "
            f"({bounds(self.lower, self.upper, self.unit)}{rough})"
        )


def from_fit(fit: Fit, kind: Kind, budget: float, settings: TrendSettings) -> Growth:
    """Read a fit as growth per request of its kind, or per abort."""
    spans = fit.blocks[-1].count - fit.blocks[0].count if fit.blocks else 0.0
    return Growth(
        figure=fit.figure,
        kind=kind,
        estimate=fit.slope,
        lower=fit.lower,
        upper=fit.upper,
        late=fit.late,
        budget=settings.objects_each if kind == "objects" else budget,
        requests=spans,
        samples=fit.samples,
        is_rough=fit.is_rough,
        lack=fit.lack,
    )


def per_abort(charged: Growth, contrast: Growth, beside: Growth) -> Growth:
    """Put together what an abort adds.

    Without a contrast all growth under load is charged to the aborts: enough to acquit, never to convict.

    Args:
        charged: everything that grew under load, for each abort.
        contrast: what is left of it beyond what completed requests add.
        beside: what a completed request adds.
    """
    if contrast.lack:
        return msgspec.structs.replace(charged, lower=-math.inf)
    if charged.lack or beside.upper < 0 or charged.upper > contrast.upper:
        return contrast
    # completed requests give nothing back, so that an abort cannot add more than all that grew
    estimate = min(contrast.estimate, charged.upper)
    return msgspec.structs.replace(
        contrast, estimate=estimate, lower=min(contrast.lower, estimate), upper=charged.upper
    )
