"""A live audit as a table, as lines of a watch, and as JSON (``omni-verify/audit/1``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

import omni_verify
from omni_verify.audit import Audit, Finding, Judgement, Removal, Sighting, WatchCounts
from omni_verify.audit.meaning import Meaning
from omni_verify.report.plain import plain

__all__ = ["audit_lines", "audit_schema", "audit_table", "document", "removal_lines", "watch_line"]

SCHEMA = "omni-verify/audit/1"
STYLES = {
    Judgement.LIVE: "green",
    Judgement.UNREAD: "yellow",
    Judgement.ORPHAN: "bold red",
    Judgement.FOREIGN: "dim",
}
_ORDER = (Judgement.LIVE, Judgement.UNREAD, Judgement.ORPHAN)
_SHOWN = 50
_UNITS = (("s", 60.0), ("min", 60.0), ("h", 24.0), ("d", float("inf")))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the grammar; fields as in docs/reference/audit-schema.md."""

    name: str
    kind: str
    request: str
    stage: str
    chunk: int | None
    pid: int | None
    size: int
    age_s: float
    uid: int
    inode: int
    judgement: Judgement
    reasons: tuple[str, ...]
    holders: tuple[dict[str, Any], ...]
    removed: bool = False
    kept: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of an audit."""

    schema: str
    tool: dict[str, str]
    root: str
    prefix: str
    counts: dict[str, int]
    entries: tuple[Row, ...]
    foreign: tuple[str, ...]
    out_of_scope: int
    unreadable: tuple[dict[str, Any], ...]
    trees: tuple[dict[str, Any], ...]
    watched: WatchCounts | None = None
    interrupted: str = ""


def document(
    audit: Audit,
    removals: Sequence[Removal] = (),
    *,
    watched: WatchCounts | None = None,
    interrupted: str = "",
) -> Document:
    """Build the JSON object of an audit."""
    by_name = {r.name: r for r in removals}
    return Document(
        schema=SCHEMA,
        tool={"name": "omni-verify", "version": omni_verify.__version__},
        root=audit.root,
        prefix=audit.prefix,
        counts={j.value: audit.count(j) for j in Judgement},
        entries=tuple(_row(f, by_name.get(f.item.name)) for f in audit.findings),
        foreign=audit.foreign,
        out_of_scope=audit.out_of_scope,
        unreadable=tuple(msgspec.to_builtins(u) for u in audit.unreadable),
        trees=tuple({"pid": pid, "name": name} for pid, name in sorted(audit.trees.items())),
        watched=watched,
        interrupted=interrupted,
    )


def audit_schema() -> dict[str, Any]:
    """Return the JSON schema of `Document`."""
    return msgspec.json.schema(Document)


def _row(finding: Finding, removal: Removal | None) -> Row:
    item, meaning = finding.item, finding.item.meaning
    return Row(
        name=item.name,
        kind=meaning.kind,
        request=meaning.request,
        stage=meaning.stage,
        chunk=meaning.chunk,
        pid=meaning.pid,
        size=item.size,
        age_s=round(item.age_s, 3),
        uid=item.uid,
        inode=item.inode,
        judgement=finding.judgement,
        reasons=finding.reasons,
        holders=tuple(msgspec.to_builtins(h) for h in finding.holders),
        removed=removal is not None and not removal.kept,
        kept=removal.kept if removal else "",
    )


def audit_table(console: Console, audit: Audit) -> None:
    """Print the files in scope by judgement and reason, those that matter most last; then the counts."""
    groups: dict[tuple[Judgement, str], list[Finding]] = {}
    for finding in audit.findings:
        groups.setdefault((finding.judgement, finding.reasons[0]), []).append(finding)
    for judgement, reason in sorted(groups, key=lambda group: _ORDER.index(group[0])):
        findings = groups[judgement, reason]
        console.print(Text.assemble((judgement.value, STYLES[judgement]), f": {plain(reason)}"))
        if console.is_terminal:
            table = Table.grid(padding=(0, 2))
            for column in ("", "what", "size", "age", "owner", "facts"):
                table.add_column(column, justify="right" if column in ("size", "age") else "left")
            for finding in findings[:_SHOWN]:
                table.add_row("", *map(Text, _cells(finding)))
            console.print(table, soft_wrap=False)
        else:
            for finding in findings[:_SHOWN]:
                said, size, age, owner, facts = _cells(finding)
                console.print(f"  {said}  {size}, {age}, {owner}; {facts}".rstrip("; "), markup=False)
        if len(findings) > _SHOWN:
            console.print(f"  and {len(findings) - _SHOWN} more; --json has all", markup=False)
    for line in audit_lines(audit):
        console.print(line, markup=False)


def audit_lines(audit: Audit) -> Iterable[str]:
    """Say what the table does not: foreign names, processes that may not be read, trees, the counts."""
    if audit.foreign:
        shown = ", ".join(map(plain, audit.foreign[:8])) + (", ..." if len(audit.foreign) > 8 else "")
        yield f"foreign, never touched: {shown}"
    if audit.unreadable:
        who = ", ".join(f"{u.pid} ({plain(u.name)}: {u.reason})" for u in audit.unreadable[:4])
        more = f" and {len(audit.unreadable) - 4} more" if len(audit.unreadable) > 4 else ""
        yield f"not looked into, so they may have files open: {who}{more}"
    if audit.trees:
        yield f"followed: {', '.join(f'{pid} ({plain(name)})' for pid, name in sorted(audit.trees.items()))}"
    counts = ", ".join(f"{audit.count(j)} {j.value}" for j in Judgement)
    other = f"; {audit.out_of_scope} without the prefix {audit.prefix!r}" if audit.out_of_scope else ""
    yield f"{audit.root}: {counts}{other}"


def removal_lines(removals: Sequence[Removal]) -> Iterable[str]:
    """Say what was removed and what was kept, and why."""
    for removal in removals:
        yield plain(f"kept {removal.name}: {removal.kept}" if removal.kept else f"removed {removal.name}")
    gone = sum(not r.kept for r in removals)
    yield f"removed {gone} of {len(removals)} orphans"


def watch_line(sighting: Sighting) -> str:
    """One sighting in one line."""
    if sighting.action == "lost":
        return f"{sighting.seconds:10.6f}  the kernel dropped events: some files came and went unseen"
    said = "foreign" if sighting.meaning is None else what(sighting.meaning)
    return plain(f"{sighting.seconds:10.6f}  {sighting.action}  {said}  {sighting.name}")


def what(meaning: Meaning) -> str:
    """Say in words what a name means."""
    match meaning.kind:
        case "fifo":
            return f"FIFO of stage {meaning.stage}"
        case "owner":
            return f"journal of sender {meaning.pid}"
        case "spare":
            return f"spare memory of sender {meaning.pid}"
        case "wake":
            return f"wake directory of user {meaning.uid}" + (
                f", launcher {meaning.pid}" if meaning.pid is not None else ""
            )
    noun = "lock" if meaning.kind == "lock" else "segment"
    chunk = f" stage {meaning.stage} chunk {meaning.chunk}" if meaning.chunk is not None else ""
    return f"{noun} of {meaning.request}{chunk}"


def _cells(finding: Finding) -> tuple[str, str, str, str, str]:
    item, meaning = finding.item, finding.item.meaning
    owner = ", ".join(f"{h.pid} {h.name}" for h in finding.holders[:2]) or f"uid {item.uid}"
    if len(finding.holders) > 2:
        owner += f" +{len(finding.holders) - 2}"
    size = f"{item.size} B" if meaning.kind in ("segment", "owner", "spare") else "-"
    facts = "; ".join(finding.reasons[1:])
    return plain(what(meaning)), size, _age(item.age_s), plain(owner), plain(facts)


def _age(seconds: float) -> str:
    value = seconds
    for unit, next_one in _UNITS:
        if value < next_one:
            return f"{value:.0f} {unit}"
        value /= next_one
    raise AssertionError("unreachable")
