"""The trend verdict: does a long run leave anything behind, per request and per abort (I51, I52)?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.exact import judge_empty, judge_steady, judge_struck
from omni_verify.checks.trend.part import is_named, judge_part
from omni_verify.checks.trend.points import measured
from omni_verify.checks.trend.report import Fit, Judgement, TrendReport, concluded
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.verdict import Verdict, combine

__all__ = ["judge_trend"]

_FIRST = {Verdict.VIOLATED: 0, Verdict.INCONCLUSIVE: 1}


def judge_trend(series: Series, settings: TrendSettings | None = None) -> TrendReport:
    """Judge a series; pure, and the same for a series that is still being written.

    Memory of each part is judged per completed request and, if there were aborts, per abort; discrete
    figures exactly at quiescent points. See `TrendSettings` for the names of the figures.
    """
    chosen = settings if settings is not None else TrendSettings()
    samples = measured(series, chosen)
    names = [name for name in series.names() if not is_named(name, chosen.ignored)]
    judgements = list(_discrete(samples, names, chosen, is_struck=_has_nemeses(series)))
    fits: list[Fit] = []
    for part in dict.fromkeys(name.split(".", 1)[0] for name in names):
        of_part = [name for name in names if name.split(".", 1)[0] == part]
        residue = [j.subject for j in judgements if j.subject in of_part and j.verdict is Verdict.VIOLATED]
        judged, fitted = judge_part(series, samples, of_part, residue, chosen)
        judgements += judged
        fits += fitted
    judgements.sort(key=lambda j: _FIRST.get(j.verdict, 2))
    verdict = combine(j.verdict for j in judgements)
    deciding = [j.sentence for j in judgements if j.verdict is verdict]
    return TrendReport(
        verdict=verdict,
        reason=_reason(verdict, deciding),
        sentences=tuple(j.sentence for j in judgements),
        findings=tuple(f for j in judgements for f in j.findings),
        judgements=tuple(judgements),
        fits=tuple(fits),
        settings=chosen,
    )


def _reason(verdict: Verdict, deciding: Sequence[str]) -> str:
    if not deciding:
        return (
            "nothing was judged: the series has no figure that the settings name, or no sample after warm-up"
        )
    if verdict is Verdict.HELD:
        return f"all {len(deciding)} questions are answered below their budgets"
    return deciding[0] + (f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else "")


def _discrete(
    samples: Sequence[Sample], names: Sequence[str], settings: TrendSettings, *, is_struck: bool
) -> Iterator[Judgement]:
    containers: dict[str, list[Judgement]] = {}
    for name in names:
        if is_named(name, settings.empty):
            yield (judge_struck if is_struck else judge_empty)(samples, name, settings)
        elif is_named(name, settings.steady):
            yield judge_steady(samples, name, settings)
        elif is_named(name, settings.containers):
            containers.setdefault(name.split(".", 1)[0], []).append(judge_steady(samples, name, settings))
    points = sum(sample.quiescent for sample in samples)
    for part, judged in containers.items():
        wrong = [j for j in judged if j.verdict is not Verdict.HELD]
        yield from wrong
        if len(wrong) < len(judged):
            sentence = f"{part}: {len(judged) - len(wrong)} containers do not grow"
            yield concluded(part, "steady", sentence, checked=points, unit="count")


def _has_nemeses(series: Series) -> bool:
    """Whether something was allowed to strike, as the facts of a soak say; a seeded leak is no strike."""
    options = series.facts.get("options")
    names = options.get("nemeses", ()) if isinstance(options, dict) else ()
    return any(name != "none" and not str(name).startswith("leak:") for name in names)
