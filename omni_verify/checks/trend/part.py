"""Memory of one part of a run: fit its figures, then judge what a request and what an abort add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.allocator import find_trims
from omni_verify.checks.trend.growth import Growth, Kind, from_fit, per_abort
from omni_verify.checks.trend.memory import PartMemory, judge_growth
from omni_verify.checks.trend.points import COUNTED, contrast_figure, fit_figure
from omni_verify.checks.trend.report import Fit, Judgement
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.verdict import Verdict

__all__ = ["is_named", "judge_part"]


class _Growths(msgspec.Struct):
    """What was fitted for one part, a growth for each of its figures.

    Attributes:
        request: of all growth, per completed request.
        apart: per completed request, beyond what aborts add.
        abort: per abort, beyond what completed requests add.
        fits: for the plots.
    """

    request: list[Growth] = []
    apart: list[Growth] = []
    abort: list[Growth] = []
    fits: list[Fit] = []


def judge_part(
    series: Series,
    samples: tuple[Sample, ...],
    names: Sequence[str],
    residue: Sequence[str],
    settings: TrendSettings,
) -> tuple[list[Judgement], list[Fit]]:
    """Judge the memory of one part; a part without memory figures gives nothing.

    Args:
        series: all of it; the trims are read from there.
        samples: behind the warm-up.
        names: figures of the part.
        residue: those of them that were found broken.
        settings: thresholds.
    """
    figures = list(_figures(names, settings))
    if not figures or figures[0][1] == "objects":
        return [], []
    part = names[0].split(".", 1)[0]
    grown = _fit(samples, figures, settings, is_blind=is_named(part, settings.blind))
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

    request = judged("per request", grown.request)
    if not grown.abort:
        return [request], grown.fits
    return _combine(request, judged("per request", grown.apart), judged("per abort", grown.abort)), grown.fits


def _fit(
    samples: tuple[Sample, ...],
    figures: Sequence[tuple[str, Kind]],
    settings: TrendSettings,
    *,
    is_blind: bool,
) -> _Growths:
    request_budget = settings.coarse_request_bytes if is_blind else settings.request_bytes
    abort_budget = settings.coarse_abort_bytes if is_blind else settings.abort_bytes
    has_aborts = _has_aborts(samples)
    grown = _Growths()
    for name, kind in figures:
        total = fit_figure(samples, settings, figure=name, per="completed", phases=COUNTED)
        grown.request.append(from_fit(total, kind, request_budget, settings))
        grown.fits.append(total)
        if not has_aborts:
            continue
        load = fit_figure(samples, settings, figure=name, per="aborted", phases=("load",))
        aborted, completed = contrast_figure(samples, settings, figure=name)
        beside = from_fit(completed, kind, request_budget, settings)
        charged, beyond = (from_fit(f, kind, abort_budget, settings) for f in (load, aborted))
        grown.apart.append(beside)
        grown.abort.append(per_abort(charged, beyond, beside))
        grown.fits += [load, aborted, completed]
    return grown


def _combine(request: Judgement, apart: Judgement, abort: Judgement) -> list[Judgement]:
    """Choose which answer per request stands beside the one per abort.

    All growth, charged to the requests, acquits them; what is left of it beyond the aborts' share may do
    either. Where the aborts are convicted, growth that was not told apart is theirs.
    """
    is_acquitted = request.verdict is not Verdict.HELD and apart.verdict is Verdict.HELD
    if apart.verdict is Verdict.VIOLATED or is_acquitted:
        return [abort, apart]
    if abort.verdict is Verdict.VIOLATED and request.verdict is not Verdict.HELD:
        return [abort]
    return [abort, request]


def _figures(names: Sequence[str], settings: TrendSettings) -> Iterator[tuple[str, Kind]]:
    """Yield the memory figures by kind: the first one is the one that decides."""
    kinds: tuple[Kind, ...] = ("resident", "unshared", "in_use", "objects")
    for kind in kinds:
        for name in names:
            if is_named(name, getattr(settings, kind)):
                yield name, kind


def _has_aborts(samples: Sequence[Sample]) -> bool:
    load = [s for s in samples if s.phase == "load"]
    return bool(load) and load[-1].aborted > load[0].aborted


def is_named(name: str, globs: Sequence[str]) -> bool:
    """Tell whether one of the globs matches."""
    return any(fnmatchcase(name, glob) for glob in globs)
