"""``omni-verify list``: what there is, for people and, with --json, for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from omni_verify.campaign import chosen
from omni_verify.cli import options
from omni_verify.contracts import invariants, weakspots
from omni_verify.engine.points import point_names
from omni_verify.errors import unknown_value
from omni_verify.report import consoles, write_json

__all__ = ["list_"]

Rows = list[dict[str, object]]


def _scenarios() -> Rows:
    return [
        {
            "id": s.id,
            "story": s.story,
            "invariants": s.invariants,
            "source": s.source,
            "weak_spots": s.weak_spots,
            "needs": s.needs,
            "isolation": s.isolation,
            "slow": s.slow,
        }
        for s in chosen(())
    ]


def _invariants() -> Rows:
    return [
        {"id": i.id, "statement": i.statement, "scope": i.scope.label, "source": i.source}
        for i in invariants.all()
    ]


def _points() -> Rows:
    return [{"id": name, "meaning": meaning} for name, meaning in point_names().items()]


def _targets() -> Rows:
    from omni_verify.targets import names

    return [{"id": name} for name in names()]


def _weak_spots() -> Rows:
    return [
        {"id": w.id, "statement": w.statement, "breaks": w.breaks, "remedy": w.remedy}
        for w in weakspots.all()
    ]


def _nemeses() -> Rows:
    from omni_verify.faults.nemeses import nemeses

    return [
        {"id": n.name, "story": n.story, "harm": n.harm.value, "point": n.point, "source": n.source}
        for n in nemeses().values()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "scenarios": _scenarios,
    "invariants": _invariants,
    "points": _points,
    "targets": _targets,
    "weak-spots": _weak_spots,
    "nemeses": _nemeses,
}


def list_(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="scenarios, invariants, points, targets or weak-spots.")
    ] = "scenarios",
    json: options.Json = None,
) -> None:
    """List scenarios, invariants, points, targets or weak spots."""
    if kind not in KINDS:
        raise unknown_value("kind", kind, KINDS)
    rows = KINDS[kind]()
    if json:
        write_json(json, rows)
        return
    out, _ = consoles()
    width = max((len(str(row["id"])) for row in rows), default=0)
    for row in rows:
        out.print(f"{str(row['id']).ljust(width)}  {_text(row)}".rstrip(), markup=False)


def _text(row: dict[str, object]) -> str:
    main = next((str(row[k]) for k in ("story", "statement", "meaning") if k in row), "")
    source = f" [{row['source']}]" if row.get("source") else ""
    judged = row.get("invariants") or row.get("breaks")
    ids = f" ({', '.join(map(str, judged))})" if isinstance(judged, (tuple, list)) else ""
    return f"{main}{ids}{source}"
