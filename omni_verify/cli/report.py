"""``omni-verify report``: a recorded run as HTML, SVG or Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from omni_verify.cli import options
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.report import check_writable, write_text

__all__ = ["report"]


def report(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a run, or its series file. Default: the newest run."),
    ] = "reports/latest",
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="One self-contained page with interactive plots.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Static plots, for Markdown.")] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Verdict and judgements as text; - for stdout.")
    ] = None,
    threshold: options.Thresholds = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Show a recorded soak: its series, phases, fits, findings and verdict.

    Without a file it writes Markdown to stdout. The exit code says only whether the report was made.
    """
    try:
        from omni_verify.report.html import soak_html
        from omni_verify.report.soak.recorded import find_series, load_soak
    except ImportError as error:
        raise TargetUnusableError(
            f"reports need {error.name}: pip install 'omni-verify[soak,pipeline]'."
        ) from None
    path = Path(run)
    if not path.exists():
        raise UsageError(f"there is no run {run!r}; give the folder that the run named as its evidence.")
    if find_series(path) is None:
        raise UsageError(f"{run!r} is not a soak: only runs of omni-verify soak can be rendered.")
    files = [file for file in (html, svg, markdown) if file is not None]
    if len({"-" if file == "-" else os.path.realpath(file) for file in files}) < len(files):
        raise UsageError("two forms of the report would go to one place; give each a file of its own.")
    for file in files:
        check_writable(file)
        if file != "-" and Path(file).exists() and not force:
            raise UsageError(f"{file!r} exists; --force overwrites it.")
    view = load_soak(path, threshold)
    if svg is not None:
        from omni_verify.report.soak.plots import soak_svg

        write_text(svg, soak_svg(view))
    if html is not None:
        write_text(html, soak_html(view))
    if markdown is not None or not files:
        from omni_verify.report.soak.markdown import soak_markdown

        write_text(markdown or "-", soak_markdown(view, image=Path(svg).name if svg and svg != "-" else ""))
