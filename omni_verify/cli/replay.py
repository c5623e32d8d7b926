"""``omni-verify replay`` and ``omni-verify minimize``: one recorded schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from omni_verify.campaign.explore import replay as campaign
from omni_verify.cli import options
from omni_verify.report import consoles, write_json
from omni_verify.report.exploration import failure_lines, replay_lines

__all__ = ["minimize", "replay"]

Token = Annotated[str, typer.Argument(metavar="TOKEN|FILE", help="As explore printed or stored it.")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", metavar="TARGET", help="For a scenario recorded on a release: which release."
    ),
]
Program = Annotated[
    str, typer.Option(metavar="FILE.py:FUNCTION", help="For a schedule of a function: the function.")
]
Instrument = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE", help="One more module of the function's program; may be repeated."),
]


def replay(
    token: Token,
    target: Target = None,
    program: Program = "",
    times: Annotated[int, typer.Option(min=1, metavar="N", help="Repetitions.")] = 1,
    carrier: Annotated[
        str, typer.Option(metavar="greenlet|thread", help="What runs the tasks; the trace is the same.")
    ] = "greenlet",
    instrument: Instrument = None,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
) -> None:
    """Run a recorded schedule again.

    Exits 1 when the failure shows again, 0 when it is fixed, 3 when the program no longer follows the
    schedule or fails in another way, 2 when the schedule belongs to another program.
    """
    out, _ = consoles(result_to_stderr=json == "-")
    report = campaign.replay(
        token,
        target=target,
        program=program,
        times=times,
        carrier=carrier,
        instrument=instrument or (),
        loader=loader,
        isolation=isolation,
    )
    for line in replay_lines(report):
        out.print(line, markup=False)
    if json:
        write_json(json, report)
    raise typer.Exit(report.exit_code)


def minimize(
    token: Token,
    target: Target = None,
    program: Program = "",
    instrument: Instrument = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the failure as a file that replay takes.")
    ] = None,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
    json: options.Json = None,
) -> None:
    """Shrink a recorded schedule: fewest preemptions, then fewest steps, same failure.

    Exits 1 with the smaller schedule, 0 when the failure does not show any more.
    """
    out, _ = consoles(result_to_stderr=json == "-")
    found = campaign.minimize(
        token,
        target=target,
        program=program,
        instrument=instrument or (),
        loader=loader,
        isolation=isolation,
    )
    if found is None:
        out.print("FIXED: the recorded failure does not show any more", markup=False)
        raise typer.Exit(0)
    for line in failure_lines(found, found.target):
        out.print(line, markup=False)
    if output:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    if json:
        write_json(json, found)
    raise typer.Exit(1)
