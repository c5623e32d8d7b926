"""``omni-verify pairs``: the sender of one target feeds the receiver of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign.pairs.run import DEFAULT_TARGETS
from omni_verify.campaign.pairs.run import pairs as campaign
from omni_verify.cli import options
from omni_verify.cli.exits import gate_code
from omni_verify.cli.run_reports import Reports
from omni_verify.report import write_json

__all__ = ["pairs"]


def pairs(
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help=f"Each is sender to each; may be repeated. Default: {', '.join(DEFAULT_TARGETS)}.",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            "-k",
            metavar="GLOB",
            help="Case ids to run, such as 'pair/stream*'; may be repeated. Default: all.",
        ),
    ] = None,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    junit: options.JUnit = None,
    allow_inconclusive: options.AllowInconclusive = False,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    verbose: options.Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Run every ordered pair of targets: sender and receiver of different releases, in two processes.

    Exits 0 when every case held, 1 when one is violated, 3 when the evidence does not suffice.
    """
    specs = target or list(DEFAULT_TARGETS)
    reports = Reports(
        "pairs",
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
            isolation_mode=isolation,
            emit=reports.emit_for("-".join(specs)),
        )
    if json:
        write_json(json, result)
    raise typer.Exit(gate_code(result, allow_inconclusive=allow_inconclusive))
