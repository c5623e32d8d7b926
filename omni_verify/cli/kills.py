"""``omni-verify kills``: any process of the reference pipeline killed at any phase."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from omni_verify.campaign.kills.matrix import FULL, QUICK, Cell
from omni_verify.campaign.kills.result import run_kills
from omni_verify.cli import options
from omni_verify.cli.exits import code_of
from omni_verify.errors import unknown_value
from omni_verify.report import check_writable, consoles, write_json
from omni_verify.report.kills import cell_line, kill_lines

__all__ = ["kills"]

PLANS = {"quick": QUICK, "full": FULL}


def kills(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            help="quick: a stage, then everybody, in the middle of a stream; full: every process at every "
            "phase.",
        ),
    ] = "quick",
    json: options.Json = None,
    quiet: options.Quiet = False,
) -> None:
    """Kill the parent, each stage and the resource tracker of the reference pipeline at every phase.

    After each kill only what is listed may be left, an audit proves every orphan and removes it and nothing
    else, and the next request is served. Runs in a private /dev/shm; the full plan takes some ten minutes.
    Exits 0 when all held, 1 when something was found, 3 when a cell could not be run, 4 without a private
    /dev/shm, 130 or 143 when it was ended.
    """
    if plan not in PLANS:
        raise unknown_value("plan", plan, PLANS)
    check_writable(json)
    out, err = consoles(result_to_stderr=json == "-")

    def emit(cell: Cell) -> None:
        if not quiet:
            out.print(cell_line(cell), markup=False, style="red" if cell.problems else None)

    with err.status("killing") if err.is_terminal and not quiet else contextlib.nullcontext():
        result = run_kills(PLANS[plan], emit)
    lines = kill_lines(result)
    for line in lines[-1:] if quiet else lines:
        out.print(line, markup=False)
    if json is not None:
        write_json(json, result)
    raise typer.Exit(code_of(result))
