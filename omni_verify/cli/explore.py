"""``omni-verify explore``: search schedules."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from omni_verify.campaign.explore.exploration import SHRINK_RERUNS, ExploreRun, ShardResult
from omni_verify.campaign.explore.search import explore as campaign
from omni_verify.campaign.store import RunStore
from omni_verify.cli import options
from omni_verify.cli.durations import seconds_of
from omni_verify.cli.exits import code_of
from omni_verify.report import consoles, write_json
from omni_verify.report.exploration import progress_line, run_lines
from omni_verify.targets.protocol import TargetInfo

__all__ = ["explore", "keep_failures"]


def explore(
    program: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO-GLOB|FILE.py:FUNCTION", help="What to explore. Default: everything."
        ),
    ] = "*",
    target: options.Target = "reference",
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="portfolio, random, pct, pos, surw, exhaustive, dpor, ...")
    ] = "portfolio",
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Schedules of each program. Default: 250 a scenario, 2000 a function."
        ),
    ] = None,
    seed: options.Seed = 0,
    time: Annotated[
        str, typer.Option(metavar="60s", help="Real time for everything; s, m or h. Alone, it is the budget.")
    ] = "",
    granularity: Annotated[
        str,
        typer.Option(
            metavar="connector|sync|access", help="Decision points. Default: sync; access for a function."
        ),
    ] = "",
    instrument: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="One more module of a function's program; may be repeated."),
    ] = None,
    workers: options.Workers = 1,
    ray: options.Ray = "",
    find_all: Annotated[
        bool,
        typer.Option("--find-all/--first", help="Collect distinct failures, or stop at a program's first."),
    ] = False,
    verify_determinism: Annotated[
        bool,
        typer.Option("--verify-determinism", help="Run first schedules twice and compare each decision."),
    ] = False,
    nemeses: options.Nemeses = "none",
    shrink_reruns: Annotated[
        int, typer.Option(min=0, metavar="N", help="Executions that shrinking one failure may take.")
    ] = SHRINK_RERUNS,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep finished shards in this file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the --checkpoint file.")] = False,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    allow_inconclusive: options.AllowInconclusive = False,
    quiet: options.Quiet = False,
) -> None:
    """Search the schedules of scenarios, or of a function that starts plain threads, for failures.

    Exits 0 when all held within the budget, 1 when a failure was found, 3 when the evidence does not suffice.
    """
    out, err = consoles(result_to_stderr=json == "-")
    run = campaign(
        program,
        target,
        strategy=strategy,
        budget=budget,
        seed=seed,
        time_s=seconds_of(time, "--time") if time else None,
        granularity=granularity,
        instrument=instrument or (),
        workers=workers,
        ray=ray,
        find_all=find_all,
        determinism=verify_determinism,
        shrink_reruns=shrink_reruns,
        nemeses=options.nemesis_names(nemeses),
        checkpoint=checkpoint,
        resume=resume,
        loader=loader,
        isolation=isolation,
        progress=Ticker(err, silent=quiet),
    )
    lines = run_lines(run)
    for line in lines[-1:] if quiet else lines:
        out.print(line, markup=False)
    if not no_store:
        folder = keep_failures(report_dir, run)
        if not quiet:
            err.print(f"evidence: {folder}", style="dim", markup=False)
    if json:
        write_json(json, run)
    raise typer.Exit(code_of(run, allow_inconclusive=allow_inconclusive))


class Ticker:
    """Says on stderr how far the search is, at most every `EVERY_S` seconds."""

    EVERY_S = 5.0

    def __init__(self, err: Console, *, silent: bool) -> None:
        self._err, self._silent = err, silent
        self._told = clock.monotonic()

    def __call__(self, info: TargetInfo, done: Sequence[ShardResult], programs: int) -> None:
        """Take one finished shard."""
        now = clock.monotonic()
        if not self._silent and now - self._told >= self.EVERY_S:
            self._told = now
            self._err.print(progress_line(done, programs), style="dim", markup=False)


def keep_failures(root: Path, run: ExploreRun) -> Path:
    """Write the run, and each failure as a file that ``replay`` takes; return the folder."""
    name = run.target.name if len(run.programs) != 1 else f"{run.target.name}-{run.programs[0].id}"
    store = RunStore(root, "explore", name)
    store.write_result(run)
    for number, failure in enumerate(run.failures, 1):
        (store.path / f"failure-{number}.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(failure)) + b"\n"
        )
    return store.path
