"""``omni-verify fuzz``: random programs, schedules and nemeses."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign.fuzz.fuzzing import FuzzReport
from omni_verify.campaign.fuzz.run import fuzz as campaign
from omni_verify.campaign.store import RunStore
from omni_verify.cli import options
from omni_verify.cli.durations import seconds_of
from omni_verify.cli.exits import code_of
from omni_verify.report import consoles, write_json
from omni_verify.report.fuzz import fuzz_lines, fuzz_progress

__all__ = ["fuzz"]

_TELL_EVERY_S = 5.0


def fuzz(
    target: options.Target = "reference",
    time: Annotated[
        str,
        typer.Option(metavar="5m", help="Real time for everything: s, m or h. Default: 60s, or --budget."),
    ] = "",
    budget: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs: programs x schedules.")
    ] = None,
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    nemeses: options.Nemeses = "all",
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the state here, and go on from it if it exists.")
    ] = None,
    ray: options.Ray = "",
    coverage: Annotated[bool, typer.Option("--coverage", help="Tell what was covered and what not.")] = False,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    allow_inconclusive: options.AllowInconclusive = False,
    quiet: options.Quiet = False,
) -> None:
    """Play random legal programs under many schedules and faults, judged by the checks and a model.

    Exits 0 when all held, 1 when a failure was found, 3 when the evidence does not suffice.
    """
    out, err = consoles(result_to_stderr=json == "-")
    told = clock.monotonic()

    def tell(report: FuzzReport) -> None:
        nonlocal told
        if not quiet and clock.monotonic() - told >= _TELL_EVERY_S:
            told = clock.monotonic()
            err.print(fuzz_progress(report), style="dim", markup=False)

    report = campaign(
        target,
        time_s=seconds_of(time, "--time") if time else None,
        budget=budget,
        seed=seed,
        workers=workers,
        nemeses=options.nemesis_names(nemeses),
        resume=resume,
        ray=ray,
        loader=loader,
        isolation=isolation,
        progress=tell,
    )
    lines = fuzz_lines(report, coverage=coverage)
    for line in lines[-1:] if quiet else lines:
        out.print(line, markup=False)
    if not no_store:
        RunStore(report_dir, "fuzz", report.target.name).write_result(report)
    if json:
        write_json(json, report)
    raise typer.Exit(code_of(report, allow_inconclusive=allow_inconclusive))
