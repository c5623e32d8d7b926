"""``omni-verify mutants``: every seeded bug against the catalogue and the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_verify.campaign.mutants.run import MutantRecord
from omni_verify.campaign.mutants.run import mutants as campaign
from omni_verify.cli import options
from omni_verify.report import consoles, write_json, write_text
from omni_verify.report.mutants import markdown_table, record_line, summary_lines

__all__ = ["mutants"]


def mutants(
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select", "-k", metavar="GLOB", help="Mutant ids, for example 'M3*'; may be repeated."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Mutants at a time.")
    ] = None,
    tests: Annotated[
        Path, typer.Option("--tests", metavar="DIR", help="Tests that guard invariants too, if it exists.")
    ] = Path("tests"),
    complete: Annotated[
        bool, typer.Option("--complete", help="Run every case of a mutant, not only up to its first kill.")
    ] = False,
    json: options.Json = None,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Write the result as a Markdown table.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Show that the harness tells broken from sound: run every seeded bug.

    Exits 0 when a case fails with each mutant's own invariant, and 1 when a mutant survives.
    """
    out, err = consoles(result_to_stderr=json == "-")

    def progress(record: MutantRecord) -> None:
        if not quiet:
            err.print(record_line(record), markup=False)

    result = campaign(
        select or (), jobs=jobs, tests=tests if tests.is_dir() else None, complete=complete, progress=progress
    )
    for line in summary_lines(result):
        out.print(line, markup=False)
    if json:
        write_json(json, result)
    if table:
        write_text(str(table), markdown_table(result))
    raise typer.Exit(1 if result.survivors or result.unfit else 0)
