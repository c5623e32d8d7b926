"""``omni-verify check``: the main job."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign import RunResult, known_failures
from omni_verify.campaign import check as campaign
from omni_verify.cli import options
from omni_verify.cli.run_reports import Reports
from omni_verify.report import write_json
from omni_verify.verdict import exit_code

__all__ = ["check", "code_of"]


def check(
    target: Annotated[
        str,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help="What to check; see: omni-verify list targets.",
            envvar="OMNI_VERIFY_TARGET",
        ),
    ] = "reference",
    select: options.Select = None,
    scenarios: options.Scenarios = None,
    loader: options.Loader = "auto",
    jobs: options.Jobs = None,
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    junit: options.JUnit = None,
    known: options.Known = None,
    nemesis: Annotated[
        str,
        typer.Option(
            metavar="NAME,...|all", help="What strikes in every case; see: omni-verify list nemeses."
        ),
    ] = "",
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
            nemeses=[name.strip() for name in nemesis.split(",") if name.strip()],
            emit=reports.emit_for(target),
        )
    if json:
        write_json(json, result)
    raise typer.Exit(code_of(result, allow_inconclusive=allow_inconclusive, strict=strict))


def code_of(result: RunResult, *, allow_inconclusive: bool = False, strict: bool = False) -> int:
    """Exit code of a run: interruption first, then the gate, then the verdict."""
    if result.interrupted:
        return 128 + int(signal.Signals[result.interrupted])
    if result.gate is not None:
        kinds = {problem.kind for problem in result.gate}
        if kinds - {"inconclusive"}:
            return 1
        code = 3 if kinds and not allow_inconclusive else 0
    else:
        code = exit_code(result.verdict, allow_inconclusive=allow_inconclusive)
    skipped = any(case.verdict == "not_applicable" for case in result.cases)
    return 3 if strict and skipped and code == 0 else code
