"""``omni-verify promote``: keep a found schedule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign.explore import promote as campaign
from omni_verify.campaign.explore.program_target import is_program
from omni_verify.cli import options
from omni_verify.cli.replay import Instrument, Program, Target, Token
from omni_verify.report import consoles, write_text

__all__ = ["promote"]


def promote(
    token: Token,
    target: Target = None,
    program: Program = "",
    instrument: Instrument = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; default: a name of its own, here.")
    ] = None,
    loader: options.Loader = "auto",
    isolation: options.Isolation = "auto",
) -> None:
    """Write a recorded schedule as a scripted scenario, or a function's as a test.

    Exits 0 when the file was written, 3 when no order of named points shows the failure.
    """
    out, _ = consoles()
    kept = campaign.promote(
        token,
        target=target,
        program=program,
        instrument=instrument or (),
        loader=loader,
        isolation=isolation,
    )
    path = output or Path(re.sub(r"\W", "_", kept.id) + ".py")
    write_text(str(path), kept.text)
    out.print(f"wrote {path}: {kept.id}", markup=False)
    for chain in kept.chains:
        out.print(f"  {chain}", markup=False)
    if is_program(program):
        out.print(f"run it     pytest {path}", markup=False)
    else:
        where = f" --target '{target}'" if target else ""
        out.print(f"run it     omni-verify check --scenarios {path} --select {kept.id}{where}", markup=False)
