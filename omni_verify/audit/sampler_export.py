"""A series in other formats: one row a sample, one column a figure."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from omni_verify.audit.draft import draft_of
from omni_verify.audit.series import Sample, Series
from omni_verify.errors import TargetUnusableError, UsageError, unknown_value

__all__ = ["export_series", "exporter_of"]

_FIELDS = ("seconds", "phase", "started", "completed", "aborted", "failed", "quiescent")


def export_series(series: Series, path: Path) -> None:
    """Write a series as ``.csv``, ``.json`` or ``.parquet``; a figure that a sample lacks is an empty cell.

    Raises:
        UsageError: another ending, or the file cannot be written.
        TargetUnusableError: Parquet without pyarrow.
    """
    write = exporter_of(path)
    try:
        with draft_of(path) as draft:
            write(series, draft)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}.") from None


def exporter_of(path: Path) -> Callable[[Series, Path], None]:
    """Return what writes a file of this name; called before a long run, so that a typo costs no soak.

    Raises:
        UsageError: unknown ending.
        TargetUnusableError: pyarrow is missing.
    """
    kinds: dict[str, Callable[[Series, Path], None]] = {".csv": _csv, ".json": _json, ".parquet": _parquet}
    if path.suffix not in kinds:
        raise unknown_value("export format", path.suffix or str(path), kinds)
    if path.suffix == ".parquet":
        _pyarrow()
    return kinds[path.suffix]


def _row(sample: Sample, names: tuple[str, ...]) -> list[object]:
    return [*(getattr(sample, f) for f in _FIELDS), *(sample.figures.get(n) for n in names)]


def _csv(series: Series, path: Path) -> None:
    names = series.names()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*_FIELDS, *names])
        writer.writerows(_row(sample, names) for sample in series.samples)


def _json(series: Series, path: Path) -> None:
    path.write_bytes(msgspec.json.encode({"facts": series.facts, "samples": series.samples}) + b"\n")


def _parquet(series: Series, path: Path) -> None:
    arrow, parquet = _pyarrow()
    names = series.names()
    rows = [_row(sample, names) for sample in series.samples]
    columns = {name: [row[n] for row in rows] for n, name in enumerate([*_FIELDS, *names])}
    parquet.write_table(arrow.table(columns), path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        pyarrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise TargetUnusableError(
            "Parquet needs pyarrow, which is not installed: pip install 'omni-verify[parquet]'. "
            "CSV and JSON need nothing."
        ) from None
    return pyarrow, parquet
