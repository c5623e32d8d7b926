"""``omni-verify check``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign import check as campaign
from omni_verify.campaign import known_failures
from omni_verify.cli import options
from omni_verify.cli.exits import gate_code
from omni_verify.cli.run_reports import Reports
from omni_verify.report import write_json

__all__ = ["check"]


def check(
    target: options.Target = "reference",
    select: options.Select = None,
    scenarios: options.Scenarios = None,
    loader: options.Loader = "auto",
    jobs: options.Jobs = None,
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    junit: options.JUnit = None,
    known: options.Known = None,
    nemesis: options.Nemeses = "none",
    allow_inconclusive: options.AllowInconclusive = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 3 when a selected scenario does not apply.")
    ] = False,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    verbose: options.Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Run the catalogue of scenarios against a target: the main job.

    Exits 0 when every case held, 1 when one is violated, 3 when the evidence does not suffice.
    """
    expected = known_failures.load(known) if known else None
    reports = Reports(
        "check",
        json=json,
        junit=junit,
        store=None if no_store else report_dir,
        verbosity=-1 if quiet else verbose,
    )
    with reports.open():
        result = campaign(
            target,
            select or (),
            loader=loader,
            jobs=jobs,
            isolation=isolation,
            known=expected,
            nemeses=options.nemesis_names(nemesis),
            emit=reports.emit_for(target),
        )
    if json:
        write_json(json, result)
    raise typer.Exit(gate_code(result, allow_inconclusive=allow_inconclusive, strict=strict))
