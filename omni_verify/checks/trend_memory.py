"""The memory of one part: what a request and what an abort add to it, and whether that is a leak.

One figure convicts nobody. Resident memory grows when the allocator keeps what was freed; it must be
joined by a witness that retention does not touch, or must stay up when the allocator is trimmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from omni_verify.checks.trend_allocator import Trims
from omni_verify.checks.trend_report import Fit, Judgement, concluded
from omni_verify.checks.trend_text import amount, bounds

__all__ = ["Growth", "Kind", "from_fit", "judge_growth", "per_abort"]

Kind = Literal["resident", "unshared", "in_use", "objects"]


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What one request, or one abort, adds to one figure.

    Attributes:
        figure, kind: which, and which witness it can be.
        estimate, lower, upper, late: as in `Fit`, in bytes (objects: count).
        budget: what it may add.
        requests: requests, or aborts, that the fit spans.
        samples: behind the fit.
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
        unit = "count" if self.kind == "objects" else "bytes"
        name = self.figure.split(".", 1)[1]
        return f"{name} {amount(self.estimate, unit)} {per} ({bounds(self.lower, self.upper, unit)})"


def from_fit(fit: Fit, kind: Kind, budget: float) -> Growth:
    """Read a fit as growth per request of its kind."""
    spans = fit.blocks[-1].count - fit.blocks[0].count if fit.blocks else 0.0
    return Growth(
        figure=fit.figure,
        kind=kind,
        estimate=fit.slope,
        lower=fit.lower,
        upper=fit.upper,
        late=fit.late,
        budget=0.0 if kind == "objects" else budget,
        requests=spans,
        samples=fit.samples,
        lack=fit.lack,
    )


def per_abort(load: Fit, control: Fit | None, ratio: float, kind: Kind, budget: float) -> Growth:
    """Charge an abort with what the load adds beyond what its completed requests add without aborts.

    Without a control phase all growth is charged to the aborts: good enough to acquit, never to convict.
    The bounds of the difference are those of two independent estimates (MOVER).

    Args:
        load: fit per abort over the load.
        control: fit per completed request over the phases without aborts.
        ratio: completed requests for each abort, over the range of `load`.
    """
    growth = from_fit(load, kind, budget)
    if growth.lack:
        return growth
    if control is None or control.lack:
        return msgspec.structs.replace(growth, lower=-math.inf)
    own, below, above = (ratio * v for v in (control.slope, control.lower, control.upper))
    estimate = growth.estimate - own
    lower = estimate - math.hypot(growth.estimate - growth.lower, above - own)
    upper = estimate + math.hypot(growth.upper - growth.estimate, own - below)
    return msgspec.structs.replace(
        growth,
        estimate=estimate,
        lower=lower,
        upper=min(upper, growth.upper) if control.slope >= 0 else upper,
        late=growth.late - own,
    )


def judge_growth(
    part: str, question: str, growths: Sequence[Growth], trims: Trims, share: float, residue: Sequence[str]
) -> Judgement:
    """Judge one part on one question.

    Args:
        growths: of every memory figure of the part; the first is the one that decides.
        trims: of that first figure.
        share: `TrendSettings.trim_share`.
        residue: discrete figures of the part that were found broken; each is a witness.
    """
    lead = growths[0]
    per = question.replace("per ", "an " if "abort" in question else "a ")
    state, why = _decide(lead, growths[1:], trims, share, residue, per)
    said = lead.lack or lead.text(per)
    sentence = f"{part}: {said}, budget {amount(lead.budget)}: {why}" if not lead.lack else f"{part}: {said}"
    return concluded(
        part,
        question,
        sentence,
        is_broken=state == "grows",
        gap=sentence if state == "open" else "",
        checked=lead.samples,
        estimate=lead.estimate,
        lower=lead.lower,
        upper=lead.upper,
        budget=lead.budget,
        needs=lead.needs if state == "open" else 0,
    )


State = Literal["grows", "flat", "open"]


def _decide(
    lead: Growth, rest: Sequence[Growth], trims: Trims, share: float, residue: Sequence[str], per: str
) -> tuple[State, str]:
    in_use = [g for g in (lead, *rest) if g.kind == "in_use" and not g.lack]
    asked = [g for g in in_use if g.grows and g is not lead]
    witnesses = [g.text(per) for g in rest if g.grows] + list(residue)
    if lead.grows and (asked or (lead.kind == "in_use" and witnesses)):
        return "grows", f"a leak; {', '.join(witnesses)} grows with it"
    if lead.grows:
        return _resident_only(lead, rest, in_use, trims, share, residue, per)
    if lead.slowed:
        return "open", "the growth has slowed in the second half, as a working set does; run longer"
    if asked and len(witnesses) > 1:
        return "grows", f"a leak inside what is resident already; {' and '.join(witnesses)} grow"
    if asked:
        return "open", f"{asked[0].text(per)} grows, and no second witness does"
    if lead.is_flat:
        agreeing = [g.figure.split(".", 1)[1] for g in rest if g.is_flat]
        return "flat", "below it beyond doubt" + (f" ({', '.join(agreeing)} too)" if agreeing else "")
    return "open", _unresolved(lead, per)


def _resident_only(
    lead: Growth,
    rest: Sequence[Growth],
    in_use: Sequence[Growth],
    trims: Trims,
    share: float,
    residue: Sequence[str],
    per: str,
) -> tuple[State, str]:
    """Resident memory grows and nothing that the program asked for is seen to."""
    covered = trims.cover(lead.total, share)
    if covered and (trims.kept or 0) < lead.budget * lead.requests:
        return "flat", "retained by the allocator, not leaked: after a trim it is back where it was"
    is_asked_flat = bool(in_use) and all(g.is_flat for g in in_use)
    if is_asked_flat and trims.returned is not None and trims.returned >= share * lead.total:
        return "flat", (
            f"retained by the allocator, not leaked: {in_use[0].text(per)} is flat and a trim gave back "
            f"{amount(trims.returned)} of {amount(lead.total)}"
        )
    objects = [g.text(per) for g in rest if g.kind == "objects" and g.grows] + list(residue)
    if objects and not covered:
        return "grows", f"a leak; {', '.join(objects)} grows with it"
    unshared = [g.text(per) for g in rest if g.kind == "unshared" and g.grows]
    if covered is False and not in_use and unshared:
        return "grows", f"a leak; a trim does not give it back, and {', '.join(unshared)} grows with it"
    if covered:
        return "open", f"most of it is retained, yet {amount(trims.kept or 0)} stayed after the last trim"
    if in_use:
        asked = ", ".join(g.text(per) for g in in_use)
        return "open", f"it grows, yet {asked} does not show it: fragments, or memory outside the heap"
    if covered is False:
        return "open", "it grows, and no second witness does"
    return "open", "it grows, and the allocator is not ruled out: record the heap in use, or trim when idle"


def _unresolved(lead: Growth, per: str) -> str:
    more = lead.needs
    noun = "aborts" if "abort" in per else "requests"
    return f"the bounds do not decide it{f'; about {more:,} more {noun} would' if more else ''}"
