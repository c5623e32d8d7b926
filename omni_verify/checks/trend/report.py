"""What the trend verdict says: fits, judgements and their sentences."""

from __future__ import annotations

import msgspec

from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.verdict import Evidence, Finding, Verdict, judge

__all__ = ["Block", "Fit", "Judgement", "TrendReport", "concluded"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a fit.

    Attributes:
        seconds: where it lies in the series (mean of its samples).
        count: requests of the fit's kind by then, cumulative (mean of its samples).
        completed: completed requests by then (mean of its samples).
        value: mean or minimum of the figure.
    """

    seconds: float
    count: float
    completed: float
    value: float


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A slope with its one-sided bounds: a Theil-Sen line, or the contrast of phases with and without aborts.

    Attributes:
        figure: ``<part>.<figure>``.
        per: what the slope is per: ``completed`` or ``aborted``.
        phases: phases whose samples it uses.
        slope, lower, upper: figure's unit per request of that kind.
        late: slope of the second half of the blocks (if rough, the least slope between eighths of the
            samples); a growth that has slowed is a working set.
        beside: slope per completed request that a contrast has beside the aborts'; 0 for a line.
        blocks: the points that were fitted.
        samples: samples behind them.
        correlation: correlation time of the detrended samples, in samples.
        cut: samples cut in front as warm-up, beyond the phase of that name.
        is_rough: there are too few independent blocks for a line; the slope is from the middle of the first
            third to that of the last, and the bounds are the extremes in them.
        lack: why there is no slope (then 0 with infinite bounds); empty otherwise.
    """

    figure: str
    per: str
    phases: tuple[str, ...]
    slope: float = 0.0
    lower: float = float("-inf")
    upper: float = float("inf")
    late: float = 0.0
    beside: float = 0.0
    blocks: tuple[Block, ...] = ()
    samples: int = 0
    correlation: float = 0.0
    cut: int = 0
    is_rough: bool = False
    lack: str = ""

    @property
    def width(self) -> float:
        """Distance from the slope to its upper bound."""
        return self.upper - self.slope


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer.

    Attributes:
        subject: what is judged: a part (``stage0``) or a figure (``shm.segments``).
        question: ``per request``, ``per abort``, ``empty`` or ``steady``.
        verdict: held only from positive evidence: the upper bound is below the budget, or every quiescent
            point was looked at.
        sentence: the figures that decided it, for a reader.
        estimate, lower, upper, budget: in `unit` per request or per abort; for discrete figures the estimate
            is what one abort (or one request, without aborts) adds.
        unit: ``bytes`` or ``count``.
        needs: further requests that would decide it, about; 0 when it is decided or cannot be told.
    """

    subject: str
    question: str
    verdict: Verdict
    sentence: str
    estimate: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    budget: float = 0.0
    unit: str = "bytes"
    needs: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The broken contract, if it is broken: residue (I51) or growth (I52)."""
        if self.verdict is not Verdict.VIOLATED:
            return ()
        return (_finding(self.subject, self.question, self.sentence),)


class TrendReport(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on a series.

    Attributes:
        verdict: violated > inconclusive > held over the judgements; nothing judged is inconclusive.
        reason: what decided it, one sentence.
        sentences: every judgement as a sentence, the deciding ones first.
        findings: broken contracts, for a case or a run result.
        judgements: one for each question.
        fits: lines for the plots.
        settings: thresholds that were used.
    """

    verdict: Verdict
    reason: str
    sentences: tuple[str, ...]
    findings: tuple[Finding, ...]
    judgements: tuple[Judgement, ...]
    fits: tuple[Fit, ...]
    settings: TrendSettings


def concluded(
    subject: str,
    question: str,
    sentence: str,
    *,
    is_broken: bool = False,
    gap: str = "",
    checked: int,
    estimate: float = 0.0,
    lower: float = 0.0,
    upper: float = 0.0,
    budget: float = 0.0,
    unit: str = "bytes",
    needs: int = 0,
) -> Judgement:
    """Build a judgement.

    Args:
        is_broken: the figures break the contract.
        gap: what is missing for a positive verdict; empty when nothing is.
        checked: how many samples were looked at.
    """
    findings = [_finding(subject, question, sentence)] if is_broken else []
    verdict, _ = judge(findings, Evidence(actors=(subject,), finished=(subject,), checked=checked, cut=gap))
    return Judgement(
        subject=subject,
        question=question,
        verdict=verdict,
        sentence=sentence,
        estimate=estimate,
        lower=lower,
        upper=upper,
        budget=budget,
        unit=unit,
        needs=needs,
    )


def _finding(subject: str, question: str, sentence: str) -> Finding:
    return Finding(invariant="I51" if question == "empty" else "I52", message=sentence, key=subject)
