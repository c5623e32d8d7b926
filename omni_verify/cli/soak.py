"""``omni-verify soak``: a long run under load, with what it leaves and whether it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.cli import options
from omni_verify.cli.durations import seconds_of
from omni_verify.cli.exits import code_of
from omni_verify.cli.given import given
from omni_verify.cli.soak_reports import write_reports
from omni_verify.errors import UsageError
from omni_verify.report import check_writable, consoles
from omni_verify.report.soak.progress import SoakProgress, soak_lines

__all__ = ["soak"]

_AFTER = ("resume", "export", "json", "allow_inconclusive", "quiet")
"""Options that say what becomes of the result, and not what the soak does."""
_STAGES = ("target", "stages", "loader", "isolation")


def soak(
    context: typer.Context,
    target: options.Target = "reference",
    duration: Annotated[
        str, typer.Option(metavar="30m", help="Length of the load: s, m, h or d. Default: 1m, or --requests.")
    ] = "",
    requests: Annotated[
        int, typer.Option(min=0, metavar="N", help="End the load after so many requests.")
    ] = 0,
    stages: Annotated[int, typer.Option(min=2, max=3, help="Stages, each in a process of its own.")] = 2,
    mix: Annotated[
        str,
        typer.Option(
            metavar="NAME|KIND=SHARE,...",
            help="What requests do: default, settled, aborts, normal, or shares such as "
            "normal=80,abort-mid=20; also least, most, frames, in-flight.",
        ),
    ] = "default",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, help="Requests in flight at most.")
    ] = 16,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests a second; 0 starts one as soon as another has ended.")
    ] = 0.0,
    seed: options.Seed = 0,
    nemeses: Annotated[
        str,
        typer.Option(
            metavar="NAME,...|all|none",
            help="What may strike, whole processes included; see: omni-verify list nemeses. leak:BYTES seeds "
            "a leak of so many bytes for each request that is left.",
        ),
    ] = "none",
    nemesis_rate: Annotated[float, typer.Option(min=0, max=1, help="Probability at each chance.")] = 0.001,
    nemesis_every: Annotated[
        str, typer.Option(metavar="20s", help="Time between two strikes at a process. Default: by duration.")
    ] = "",
    url: Annotated[
        str, typer.Option(metavar="http://HOST:PORT", help="Load this server instead of own stages.")
    ] = "",
    pid: Annotated[
        list[int] | None, typer.Option(min=1, metavar="PID", help="Process of that server; may be repeated.")
    ] = None,
    endpoint: Annotated[str, typer.Option(metavar="chat|speech", help="Endpoint of that server.")] = "chat",
    quiesce_every: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Requests between two quiescent points. Default: by length."),
    ] = 0,
    sample_every: Annotated[
        str, typer.Option(metavar="1s", help="Time between samples. Default: by length.")
    ] = "",
    idle: Annotated[
        str, typer.Option(metavar="5s", help="Length of the idle phase. Default: by length.")
    ] = "",
    request_timeout: Annotated[
        str, typer.Option(metavar="20s", help="When a request counts as hanging.")
    ] = "20s",
    threshold: options.Thresholds = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with the soak in this folder of the run store.")
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Write the series as .csv, .json or .parquet; may be repeated."),
    ] = None,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
    report_dir: options.ReportDir = Path("reports"),
    no_store: options.NoStore = False,
    allow_inconclusive: options.AllowInconclusive = False,
    quiet: options.Quiet = False,
) -> None:
    """Load a target for minutes or days, measure it, and judge what it leaves and whether it grows.

    A first Ctrl-C or SIGTERM ends the load in order and gives a verdict on what was measured. Exits 0 when
    all held, 1 when something was found, 3 when the evidence does not suffice, 130 or 143 when it was ended.
    """
    from omni_verify.audit.sampler_export import exporter_of
    from omni_verify.campaign.soak import run as soak_run

    _refuse_contradictions(context, resume=resume, url=url)
    check_writable(json)
    for path in export or ():
        exporter_of(path)
        check_writable(str(path))
    out, err = consoles(result_to_stderr=json == "-")
    with SoakProgress(err, quiet=quiet) as progress:
        if resume is not None:
            outcome = soak_run.resume(resume, tell=progress.tell, emit=lambda event: None)
        else:
            wanted = SoakOptions(
                target=target,
                loader=loader,
                stages=stages,
                url=url,
                pids=tuple(pid or ()),
                endpoint=endpoint,
                requests=requests,
                duration_s=seconds_of(duration, "--duration") if duration else 0.0 if requests else 60.0,
                mix=mix,
                seed=seed,
                concurrency=concurrency,
                rate=rate,
                nemeses=tuple(options.nemesis_names(nemeses)),
                nemesis_rate=nemesis_rate,
                nemesis_every_s=seconds_of(nemesis_every, "--nemesis-every") if nemesis_every else 0.0,
                quiesce_every=quiesce_every,
                sample_s=seconds_of(sample_every, "--sample-every") if sample_every else 0.0,
                idle_s=seconds_of(idle, "--idle") if idle else 0.0,
                request_s=seconds_of(request_timeout, "--request-timeout"),
                isolation=isolation,
                thresholds=tuple(threshold or ()),
            )
            store = None if no_store else report_dir
            outcome = soak_run.soak(wanted, store=store, tell=progress.tell, emit=lambda event: None)
    result = outcome.result
    unwritten = write_reports(outcome, json, export or ())
    lines = soak_lines(outcome.cases, outcome.summary, outcome.trend, result.verdict, result.interrupted)
    for line in lines[-1:] if quiet else lines:
        out.print(line, markup=False)
    for problem in unwritten:
        err.print(f"omni-verify: {problem}", markup=False)
    if outcome.folder is not None and not quiet:
        page = outcome.folder / "report.html"
        err.print(f"report: {page}\nevidence: {outcome.folder}", style="dim", markup=False)
    # a file that could not be written does not hide what was found
    raise typer.Exit(code_of(result, allow_inconclusive=allow_inconclusive) or (2 if unwritten else 0))


def _refuse_contradictions(context: typer.Context, *, resume: Path | None, url: str) -> None:
    """An option that would do nothing here was meant to do something."""
    if resume is not None:
        if extra := given(context, besides=_AFTER):
            raise UsageError(
                f"--resume goes on with the options of its run, in its folder: leave out {extra}."
            )
    elif url:
        if extra := given(context, _STAGES):
            raise UsageError(f"{extra} is about own stages; --url loads a server that somebody else runs.")
    elif extra := given(context, ("pid", "endpoint")):
        raise UsageError(f"{extra} is about a server that somebody else runs: name it by --url.")
