"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from omni_verify.harness.scenario import EXTRA_VARIABLE


def _more_scenarios(files: list[str] | None) -> list[str] | None:
    """Name the files where every process of this run looks for them."""
    if files:
        before = os.environ.get(EXTRA_VARIABLE, "").split(os.pathsep)
        paths = [os.path.abspath(f) for f in files]
        os.environ[EXTRA_VARIABLE] = os.pathsep.join(dict.fromkeys(filter(None, (*before, *paths))))
    return files


def nemesis_names(text: str) -> list[str]:
    """Split ``NAME,...``; ``none`` is none."""
    return [name for name in map(str.strip, text.split(",")) if name not in ("", "none")]


Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="TARGET",
        help="What to check; see: omni-verify list targets.",
        envvar="OMNI_VERIFY_TARGET",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select", "-k", metavar="GLOB", help="Scenario ids to run; may be repeated. Default: all."
    ),
]
Scenarios = Annotated[
    list[str] | None,
    typer.Option(
        "--scenarios",
        metavar="FILE",
        help="One more file of scenarios, for example a promoted one; may be repeated.",
        callback=_more_scenarios,
    ),
]
Loader = Annotated[
    str,
    typer.Option(
        metavar="auto|isolated|native", help="How vllm-omni is imported: stand-ins for vllm, or the real one."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Cases at a time. Default: cores, at most 4."),
]
Isolation = Annotated[
    str,
    typer.Option(metavar="auto|mount|prefix", help="Private /dev/shm by a mount namespace, or a key prefix."),
]
Seed = Annotated[int, typer.Option(help="Same seed, same programs, requests, schedules and strikes.")]
Workers = Annotated[int, typer.Option(min=1, metavar="N", help="Shards or batches at a time.")]
Ray = Annotated[
    str, typer.Option(metavar="local|ADDRESS", help="Run shards or batches as tasks of a Ray cluster.")
]
Nemeses = Annotated[
    str, typer.Option(metavar="NAME,...|all|none", help="What may strike; see: omni-verify list nemeses.")
]

Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="NAME=VALUE",
        help="Another threshold of the trend verdict (docs/reference/trend.md); may be repeated.",
    ),
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="PATH", help="Write the result as JSON; - is stdout.")
]
JUnit = Annotated[str | None, typer.Option("--junit", metavar="PATH", help="Write a JUnit file.")]
Known = Annotated[
    Path | None,
    typer.Option(
        "--known-failures", metavar="FILE", help="TOML of expected violations; fail on every change."
    ),
]
AllowInconclusive = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 instead of 3 when the verdict is inconclusive.")
]
ReportDir = Annotated[
    Path, typer.Option("--report-dir", metavar="DIR", help="Run store.", envvar="OMNI_VERIFY_REPORT_DIR")
]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep no files of the run.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Tell more.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Tell the verdict only.")]
