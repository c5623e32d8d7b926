"""What a soak leaves in files at its end, each for itself: one that fails does not take the others along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omni_verify.errors import OmniVerifyError
from omni_verify.report import write_json, write_text

if TYPE_CHECKING:
    from omni_verify.campaign.soak.run import Outcome

__all__ = ["write_reports"]


def write_reports(outcome: Outcome, json: str | None, export: Sequence[Path]) -> list[str]:
    """Write every report that can be; return what could not be."""
    from omni_verify.audit.sampler_export import export_series
    from omni_verify.report.html import soak_html
    from omni_verify.report.soak.recorded import load_soak

    problems = [outcome.unwritten] if outcome.unwritten else []

    def attempt(write: Callable[[], None]) -> None:
        try:
            write()
        except OmniVerifyError as error:
            problems.append(str(error))

    for path in export:
        attempt(partial(export_series, outcome.series, path))
    if json is not None:
        attempt(partial(write_json, json, outcome.result))
    if (folder := outcome.folder) is not None:  # beside the evidence
        attempt(lambda: write_text(str(folder / "report.html"), soak_html(load_soak(folder))))
    return problems
