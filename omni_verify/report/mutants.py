"""A run of the mutants as lines and as the table under docs/."""

from __future__ import annotations

from omni_verify.campaign.mutants.run import MutantRecord, MutantsResult

__all__ = ["markdown_table", "record_line", "summary_lines"]

_SHOWN = 3


def record_line(record: MutantRecord) -> str:
    """One mutant in one line."""
    m = record.mutant
    head = f"{m.id.ljust(6)} {_state(record).ljust(10)} {record.duration_s:5.1f} s  "
    if record.kills:
        kill = record.kills[0]
        return f"{head}{kill.invariant} by {kill.case}: {kill.reason}"
    problem = f"; {record.problem}" if record.problem else ""
    return f"{head}{m.summary} (must break {', '.join(m.breaks)}){problem}"


def summary_lines(result: MutantsResult) -> list[str]:
    """Survivors, unfit and idle cases, and the counts."""
    lines = [
        f"survivor {r.mutant.id}: {r.mutant.summary} (must break {', '.join(r.mutant.breaks)})"
        for r in result.survivors
    ]
    lines += [
        f"equivalent {r.mutant.id}: {r.mutant.equivalent}"
        for r in result.records
        if r.mutant.equivalent and not r.kills
    ]
    lines += [f"fails on the reference itself: {case}: {reason}" for case, reason in result.unfit.items()]
    lines += [f"kills nothing: {case}" for case in result.idle]
    killed = sum(bool(r.kills) for r in result.records)
    counts = f"{killed} killed, {len(result.survivors)} alive"
    return [*lines, f"{len(result.records)} mutants: {counts} in {result.duration_s:.0f} s"]


def markdown_table(result: MutantsResult) -> str:
    """Return the page docs/mutants.md."""
    killed = sum(bool(r.kills) for r in result.records)
    equal = sum(bool(r.mutant.equivalent) and not r.kills for r in result.records)
    lines = [
        "# Seeded bugs",
        "",
        "Written by `omni-verify mutants --table docs/mutants.md`. Each mutant is one change of the",
        "reference, and a kill counts only if a case fails with an invariant that the mutant must break.",
        "",
        f"{len(result.records)} mutants: {killed} killed, {equal} equivalent, {len(result.survivors)} alive.",
        "",
        "| mutant | change | breaks | source | killed by |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_row(r) for r in result.records]
    if result.idle:
        lines += ["", "## Cases that kill no mutant", "", *(f"* `{case}`" for case in result.idle)]
    return "\n".join(lines) + "\n"


def _row(record: MutantRecord) -> str:
    m = record.mutant
    # a test with parameters may kill more than once
    kills = list(dict.fromkeys(f"`{k.case}` ({k.invariant})" for k in record.kills))
    shown = kills[:_SHOWN]
    if len(kills) > _SHOWN:
        shown.append(f"and {len(kills) - _SHOWN} more")
    by = ", ".join(shown) or (f"equivalent: {m.equivalent}" if m.equivalent else "**alive**")
    cells = (m.id, m.summary, ", ".join(m.breaks), m.source, by)
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _state(record: MutantRecord) -> str:
    if record.kills:
        return "killed"
    return "equivalent" if record.mutant.equivalent else "ALIVE"
