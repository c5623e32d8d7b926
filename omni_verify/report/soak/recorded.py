"""From a recorded soak to what its report shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from omni_verify.audit.series import read_series
from omni_verify.checks.trend.settings import settings_from
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.errors import UsageError
from omni_verify.report.soak.view import View, soak_view
from omni_verify.verdict import Finding, Verdict

__all__ = ["SERIES_FILE", "find_series", "load_soak"]

SERIES_FILE = "series.jsonl"


def find_series(run: Path) -> Path | None:
    """Return the series of a run folder, or the path itself if it is a file; None if there is none."""
    if run.is_file():
        return run
    path = run / SERIES_FILE
    return path if path.is_file() else None


def load_soak(run: Path, thresholds: Sequence[str] | None = None) -> View:
    """Read a soak from its folder, or from its series alone, and judge the series.

    Args:
        run: folder of the run store, or a series file.
        thresholds: ``NAME=VALUE`` for those that differ from their defaults; None for those of the run.

    Raises:
        UsageError: there is no series, or it is damaged.
    """
    path = find_series(run)
    if path is None:
        raise UsageError(f"{str(run)!r} holds no soak: there is no {SERIES_FILE} in it.")
    series = read_series(path)
    result = _result(run / "result.json") if run.is_dir() else {}
    findings = _findings(result, run / "result.json")
    verdict = str(result.get("verdict"))
    return soak_view(
        series,
        judge_trend(series, settings_from(_thresholds(series.facts) if thresholds is None else thresholds)),
        title=_title(result, series.facts, run),
        verdict=Verdict(verdict) if verdict in set(Verdict) else None,
        findings=findings,
        facts=dict(_options(series.facts))
        | {
            name: str(value)
            for name, value in series.facts.items()
            if isinstance(value, (str, int, float)) and value != "" and name not in ("target", "command")
        },
    )


def _result(path: Path) -> Mapping[str, Any]:
    """Read ``result.json``; a soak that was killed has none, and its series still tells."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None


def _findings(result: Mapping[str, Any], path: Path) -> list[Finding]:
    try:
        cases = msgspec.convert(result.get("cases", ()), list[dict[str, Any]])
        raw = [*result.get("findings", ()), *(f for c in cases for f in c.get("findings", ()))]
        return msgspec.convert(raw, list[Finding])
    except (msgspec.ValidationError, TypeError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UsageError:
    return UsageError(
        f"{path} is not the result of a soak: {error}. Move it away to see what the series alone says."
    )


def _title(result: Mapping[str, Any], facts: Mapping[str, object], run: Path) -> str:
    """Name target, version and connector; the folder when the series does not say."""
    target = result.get("target") or facts.get("target")
    if isinstance(target, dict):
        named = (str(target[key]) for key in ("name", "version", "connector") if target.get(key))
        return " ".join(named) or run.name
    return str(target or run.name)


def _thresholds(facts: Mapping[str, object]) -> Sequence[str]:
    """Thresholds that the run was asked to judge by."""
    options = facts.get("options")
    found = options.get("thresholds") if isinstance(options, dict) else None
    return [str(each) for each in found] if isinstance(found, list) else []


def _options(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what was asked for, as far as it is not the default of nothing."""
    options = facts.get("options")
    if not isinstance(options, dict):
        return
    for name in ("url", "stages", "mix", "seed", "concurrency", "rate", "nemeses", "thresholds"):
        value = options.get(name)
        if value:
            text = ", ".join(map(str, value)) if isinstance(value, list) else f"{value}"
            yield name, text
