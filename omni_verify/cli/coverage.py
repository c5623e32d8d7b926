"""``omni-verify coverage``: what a run of the catalogue has covered, and the gaps."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from omni_verify.campaign import check as campaign
from omni_verify.campaign import events
from omni_verify.campaign.coverage import Coverage, Gaps, observe
from omni_verify.cli import options
from omni_verify.contracts import invariants
from omni_verify.engine.points import OPERATIONS
from omni_verify.report import consoles, write_json
from omni_verify.report.fuzz import coverage_lines

__all__ = ["CoverageReport", "coverage"]


class CoverageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage of one run of the catalogue; ``omni-verify/coverage/1``.

    Attributes:
        cases: how many were run.
        unjudged: invariants that no case judged.
    """

    schema: str = "omni-verify/coverage/1"
    target: str
    cases: int
    coverage: Coverage
    gaps: Gaps
    unjudged: tuple[str, ...]


def coverage(
    target: options.Target = "reference",
    select: options.Select = None,
    loader: options.Loader = "auto",
    jobs: options.Jobs = None,
    isolation: options.Isolation = "auto",
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Gaps shown of each kind.")] = 40,
    json: options.Json = None,
) -> None:
    """Run the catalogue and tell what it covered: points, orders, concurrent operations, invariants.

    A gap is a question, not a failure: the command exits 0 whatever it finds.
    """
    out, err = consoles(result_to_stderr=json == "-")
    seen = Coverage()

    def take(event: events.Event) -> None:
        if isinstance(event, events.CaseFinished):
            seen.add(observe(event.case.trace, event.case.invariants))

    run = campaign(target, select or (), loader=loader, jobs=jobs, isolation=isolation, emit=take)
    report = CoverageReport(
        target=run.target.name,
        cases=len(run.cases),
        coverage=seen,
        gaps=seen.gaps(possible=OPERATIONS),
        unjudged=tuple(i.id for i in invariants.all() if i.id not in seen.invariants),
    )
    for line in coverage_lines(seen, report.gaps, limit=limit):
        out.print(line, markup=False)
    out.print(
        f"  invariants never judged ({len(report.unjudged)}): {', '.join(report.unjudged)}", markup=False
    )
    if json:
        write_json(json, report)
    if run.interrupted:
        err.print("interrupted; the results are partial", markup=False)
