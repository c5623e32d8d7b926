"""``omni-verify matrix``: several releases, expected against found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign import known_failures
from omni_verify.campaign import matrix as campaign
from omni_verify.cli import options
from omni_verify.cli.exits import gate_code
from omni_verify.cli.run_reports import Reports
from omni_verify.report import matrix_lines, write_json

__all__ = ["matrix"]


def matrix(
    version: Annotated[
        list[str] | None, typer.Option("--version", metavar="V", help="A vllm-omni release; may be repeated.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", metavar="TARGET", help="Any target; may be repeated."),
    ] = None,
    select: options.Select = None,
    loader: options.Loader = "auto",
    jobs: options.Jobs = None,
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    junit: options.JUnit = None,
    known: options.Known = None,
    allow_inconclusive: options.AllowInconclusive = False,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    verbose: options.Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Check several releases, each in its own process, and fail on any change against the known failures.

    Without --known-failures the committed file of the real releases is used. Exits 0 when every
    release is violated exactly where it is expected to be.
    """
    specs = [f"vllm-omni=={v}" for v in version or ()] + list(target or ())
    expected = known_failures.load(known) if known else None
    reports = Reports(
        "matrix",
        json=json,
        junit=junit,
        store=None if no_store else report_dir,
        verbosity=-1 if quiet else verbose,
    )
    with reports.open():
        result = campaign(
            specs,
            select or (),
            loader=loader,
            jobs=jobs,
            isolation=isolation,
            known=expected,
            emit_for=reports.emit_for,
        )
    for line in ["", *matrix_lines(result)]:
        reports.out.print(line, markup=False)
    if json:
        write_json(json, result)
    codes = [gate_code(run, allow_inconclusive=allow_inconclusive) for run in result.runs]
    raise typer.Exit(max(codes, key=lambda c: (c > 127, c == 1, c)))
