"""The trend verdict: does a long run leave anything behind, per request and per abort (I51, I52)?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend_allocator import find_trims
from omni_verify.checks.trend_exact import judge_empty, judge_steady
from omni_verify.checks.trend_growth import Growth, Kind, from_fit, per_abort
from omni_verify.checks.trend_memory import PartMemory, judge_growth
from omni_verify.checks.trend_points import COUNTED, contrast_figure, fit_figure, measured
from omni_verify.checks.trend_report import Fit, Judgement, TrendReport, concluded
from omni_verify.checks.trend_settings import TrendSettings
from omni_verify.verdict import Verdict, combine

__all__ = ["judge_trend"]

_ORDER = (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.HELD)


def judge_trend(series: Series, settings: TrendSettings | None = None) -> TrendReport:
    """Judge a series; pure, and the same for a series that is still being written.

    Memory of each part is judged per completed request and, if there were aborts, per abort; discrete
    figures exactly at quiescent points. See `TrendSettings` for the names of the figures.
    """
    chosen = settings if settings is not None else TrendSettings()
    samples = measured(series, chosen)
    names = [name for name in series.names() if not _is(name, chosen.ignored)]
    judgements = list(_discrete(samples, names, chosen))
    fits: list[Fit] = []
    for part in dict.fromkeys(name.split(".", 1)[0] for name in names):
        of_part = [name for name in names if name.split(".", 1)[0] == part]
        residue = [j.subject for j in judgements if j.subject in of_part and j.verdict is Verdict.VIOLATED]
        judgements += _memory(series, samples, part, of_part, residue, chosen, fits)
    judgements.sort(key=lambda j: _ORDER.index(j.verdict))
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
    samples: Sequence[Sample], names: Sequence[str], settings: TrendSettings
) -> Iterator[Judgement]:
    containers: dict[str, list[Judgement]] = {}
    for name in names:
        if _is(name, settings.empty):
            yield judge_empty(samples, name, settings)
        elif _is(name, settings.steady):
            yield judge_steady(samples, name, settings)
        elif _is(name, settings.containers):
            containers.setdefault(name.split(".", 1)[0], []).append(judge_steady(samples, name, settings))
    points = sum(sample.quiescent for sample in samples)
    for part, judged in containers.items():
        wrong = [j for j in judged if j.verdict is not Verdict.HELD]
        yield from wrong
        if len(wrong) < len(judged):
            sentence = f"{part}: {len(judged) - len(wrong)} containers do not grow"
            yield concluded(part, "steady", sentence, checked=points, unit="count")


def _memory(
    series: Series,
    samples: tuple[Sample, ...],
    part: str,
    names: Sequence[str],
    residue: Sequence[str],
    settings: TrendSettings,
    fits: list[Fit],
) -> Iterator[Judgement]:
    """Judge the memory of one part; the fits go into `fits` for the plots."""
    figures = list(_figures(names, settings))
    if not figures or figures[0][1] == "objects":
        return
    is_blind = _is(part, settings.blind)
    request_budget = settings.coarse_request_bytes if is_blind else settings.request_bytes
    abort_budget = settings.coarse_abort_bytes if is_blind else settings.abort_bytes
    per_request, without_aborts, for_abort = [], [], []
    has_aborts = _has_aborts(samples)
    for name, kind in figures:
        total = fit_figure(samples, settings, figure=name, per="completed", phases=COUNTED)
        per_request.append(from_fit(total, kind, request_budget, settings))
        fits.append(total)
        if not has_aborts:
            continue
        load = fit_figure(samples, settings, figure=name, per="aborted", phases=("load",))
        aborted, completed = contrast_figure(samples, settings, figure=name)
        beside = from_fit(completed, kind, request_budget, settings)
        without_aborts.append(beside)
        charged, beyond = (from_fit(f, kind, abort_budget, settings) for f in (load, aborted))
        for_abort.append(per_abort(charged, beyond, beside))
        fits += [load, aborted, completed]
    trims = find_trims(series.samples, figures[0][0])

    def judged(question: str, growths: Sequence[Growth]) -> Judgement:
        return judge_growth(
            PartMemory(
                part=part,
                question=question,
                lead=growths[0],
                rest=tuple(growths[1:]),
                trims=trims,
                residue=tuple(residue),
                settings=settings,
            )
        )

    request = judged("per request", per_request)
    if not has_aborts:
        yield request
        return
    abort, apart = judged("per abort", for_abort), judged("per request", without_aborts)
    if apart.verdict is Verdict.VIOLATED or (
        request.verdict is not Verdict.HELD and apart.verdict is Verdict.HELD
    ):
        request = apart
    yield abort
    if request is apart or not _is_explained(request, abort):
        yield request


def _is_explained(request: Judgement, abort: Judgement) -> bool:
    """Growth over a mix of both is the aborts' when they are convicted and the control does not say more."""
    return abort.verdict is Verdict.VIOLATED and request.verdict is not Verdict.HELD


def _figures(names: Sequence[str], settings: TrendSettings) -> Iterator[tuple[str, Kind]]:
    kinds: tuple[Kind, ...] = ("resident", "unshared", "in_use", "objects")
    for kind in kinds:
        for name in names:
            if _is(name, getattr(settings, kind)):
                yield name, kind


def _has_aborts(samples: Sequence[Sample]) -> bool:
    load = [s for s in samples if s.phase == "load"]
    return bool(load) and load[-1].aborted > load[0].aborted


def _is(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
