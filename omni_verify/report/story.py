"""A violated or inconclusive case as a short text: who did what in which order, expected, found, replay.

The same lines serve the terminal, JUnit and pytest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from omni_verify.engine.points import PointRef
from omni_verify.errors import UsageError
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.harness.scenario import catalogue
from omni_verify.targets.protocol import TargetInfo
from omni_verify.trace.event import Event
from omni_verify.verdict import Finding, Verdict

__all__ = ["headline", "residue_text", "story", "target_text", "trace_rows"]

MAX_ROWS = 14
"""Rows of the trace that a story shows."""
EPILOGUE = ("close.", "shutdown.", "actor.")
"""Points of the tear-down and of the harness: in a story only when the order names them."""
WIDTH, ROW_WIDTH = 100, 140
"""Columns of the text, and of a row of the trace table."""


def headline(case: CaseResult) -> str:
    """One line that says what the case showed."""
    if case.findings:
        first = case.findings[0]
        return f"{first.invariant} violated: {first.message}"
    return f"{case.verdict.value.replace('_', ' ')}: {case.reason}" if case.reason else case.verdict.value


def target_text(info: TargetInfo) -> str:
    """Name, version, connector and loader of a target in one line."""
    name = f"{info.name} {info.version}".strip()
    return " · ".join(part for part in (name, info.connector, info.loader) if part)


def story(case: CaseResult, info: TargetInfo, evidence: str = "") -> list[str]:
    """Tell a case that did not hold.

    Args:
        case: the case.
        info: its target.
        evidence: folder with its files; empty if there is none.
    """
    scenario = catalogue().get(case.id)
    lines = [headline(case), ""]
    lines += _field("scenario", f"{case.id}: {scenario.story}" if scenario else case.id)
    lines += _field("source", scenario.source if scenario else "")
    lines += _field("target", target_text(info))
    for n, order in enumerate(case.evidence.orders):
        lines += _field("order" if n == 0 else "", order)
    rows = trace_rows(case)
    if rows:
        lines += ["", *_table(rows, len(case.trace)), ""]
    lines += _findings(case.findings)
    if case.verdict is Verdict.INCONCLUSIVE:
        for n, gap in enumerate(case.evidence.gaps()):
            lines += _field("missing" if n == 0 else "", gap)
    lines += _field("left", residue_text(case.residue))
    if case.stacks:
        lines += _field(
            "stacks", f"{len(case.stacks.splitlines())} lines" if evidence else _tail(case.stacks)
        )
    lines += _field("replay", case.replay, wrap=False)
    lines += _field("evidence", evidence, wrap=False)
    return lines


def residue_text(residue: Residue) -> str:
    """What was left under /dev/shm, in one line; empty if nothing."""
    parts = []
    for kind in ("segments", "locks", "fifos"):
        names = getattr(residue, kind)
        if names:
            more = f", … {len(names) - 4} more" if len(names) > 4 else ""
            noun = kind[:-1] if len(names) == 1 else kind
            parts.append(f"{len(names)} {noun}: {', '.join(names[:4])}{more}")
    return "; ".join(parts)


def trace_rows(case: CaseResult, limit: int = MAX_ROWS) -> list[Event]:
    """Choose the events that matter: those of the declared order, then those of the keys involved."""
    refs = _order_refs(case.evidence.orders)
    keys = {r.key for r in refs if r.key != "*"} | {f.key for f in case.findings if f.key}
    named = [e for ref in refs for e in _nth(ref, case.trace)]
    chosen = {e.seq: e for e in named}
    before_the_end = [e for e in case.trace if not e.point.startswith(EPILOGUE)]
    related = [e for e in before_the_end if e.seq not in chosen and _related(e.key, keys)]
    if not related and not named:
        related = before_the_end
    # closest to the ordered part first; without an order, what happened last
    middle = sum(e.seq for e in named) / len(named) if named else float("inf")
    for event in sorted(_without_plain_entries(related), key=lambda e: (abs(e.seq - middle), -e.seq)):
        if len(chosen) >= limit:
            break
        chosen[event.seq] = event
    return [chosen[seq] for seq in sorted(chosen)][:limit]


def _without_plain_entries(events: Sequence[Event]) -> list[Event]:
    """Drop the ``enter`` of an operation during which nothing else of interest happened."""
    kept = []
    for event, following in zip(events, [*events[1:], None], strict=False):
        pair = following is not None and (event.actor, event.key) == (following.actor, following.key)
        operation, _, side = event.point.rpartition(".")
        if side == "enter" and pair and following is not None and following.point == f"{operation}.exit":
            continue
        kept.append(event)
    return kept


def _order_refs(orders: Sequence[str]) -> list[PointRef]:
    refs: list[PointRef] = []
    for order in orders:
        for part in order.split("<"):
            try:
                refs.append(PointRef.parse(part))
            except UsageError:
                continue  # an order of a newer format still leaves the rest of the story readable
    return list(dict.fromkeys(refs))


def _nth(ref: PointRef, trace: Sequence[Event]) -> list[Event]:
    """The event that a reference means, as a list of at most one."""
    return [e for e in trace if ref.matches(e.actor, e.point, e.key)][ref.nth - 1 : ref.nth]


def _related(key: str, keys: set[str]) -> bool:
    return any(key == k or key.startswith(f"{k}_") or k.startswith(f"{key}_") for k in keys)


def _table(rows: Sequence[Event], total: int) -> list[str]:
    cells = [(str(e.seq), e.actor, e.point, " ".join(filter(None, (e.key, _detail(e))))) for e in rows]
    head = ("#", "actor", "point", "key and detail")
    widths = [max(len(c[i]) for c in (head, *cells)) for i in range(3)]
    lines = []
    for c in (head, *cells):
        text = f"   {c[0].rjust(widths[0])}  {c[1].ljust(widths[1])}  {c[2].ljust(widths[2])}  {c[3]}"
        lines.append(text.rstrip() if len(text) <= ROW_WIDTH else text[: ROW_WIDTH - 1] + "…")
    if total > len(rows):
        lines.append(f"   ({len(rows)} of {total} events)")
    return lines


def _detail(event: Event) -> str:
    return ", ".join(f"{k}={v}" for k, v in event.detail.items())[:60]


def _findings(findings: Sequence[Finding]) -> list[str]:
    """Expected and found of each finding; those that differ in the invariant only are told once."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.message, finding.expected, finding.found), []).append(finding)
    lines: list[str] = []
    for n, ((message, expected, found), group) in enumerate(groups.items()):
        ids = ", ".join(dict.fromkeys(f.invariant for f in group))
        if n > 0 or len(group) > 1:
            lines += _field("also" if n else "breaks", f"{ids}: {message}" if n else ids)
        lines += _field("expected", expected)
        lines += _field("found", found)
    return lines


def _field(name: str, text: str, *, wrap: bool = True) -> list[str]:
    if not text:
        return []
    lines = [
        part for raw in text.splitlines() for part in (textwrap.wrap(raw, WIDTH - 13) if wrap else [raw])
    ]
    return [f"  {(name if n == 0 else '').ljust(9)}  {line}".rstrip() for n, line in enumerate(lines)]


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
