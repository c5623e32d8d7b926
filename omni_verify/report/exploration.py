"""An exploration, a replay and a shrunk schedule as text."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.campaign.explore.exploration import (
    ExploreRun,
    FailureRecord,
    ProgramRecord,
    Row,
    ShardResult,
)
from omni_verify.campaign.explore.replay import ReplayReport
from omni_verify.report.story import target_text
from omni_verify.verdict import Verdict

__all__ = ["failure_lines", "progress_line", "replay_lines", "run_lines", "table"]

WORDS = {
    Verdict.HELD: "held",
    Verdict.VIOLATED: "VIOLATED",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.NOT_APPLICABLE: "not applicable",
}
DETAIL_LINES = 14
"""Lines of a wait-for graph or traceback that are shown."""


def run_lines(run: ExploreRun) -> list[str]:
    """Everything that one exploration tells."""
    width = max((len(p.id) for p in run.programs), default=0)
    lines = [_program_line(p, width) for p in run.programs]
    for failure in run.failures:
        lines += ["", *failure_lines(failure, target_text(run.target))]
    ran = sum(p.schedules for p in run.programs)
    programs, found = len(run.programs), len(run.failures)
    what = f"{found} distinct {'failure' if found == 1 else 'failures'}" if found else "no failure"
    lines += [
        "",
        f"{_count(ran, 'schedule')} of {_count(programs, 'program')} in {run.duration_s:.1f} s: {what}",
    ]
    if run.interrupted:
        lines.append(f"interrupted by {run.interrupted}; the results are partial")
    lines.append(f"verdict: {WORDS[run.verdict]}{_scope(run)}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"


def _scope(run: ExploreRun) -> str:
    """What a verdict of held is about: never more than what was run."""
    if run.verdict is not Verdict.HELD:
        return ""
    covered = {p.completeness for p in run.programs if p.verdict is Verdict.HELD}
    if len(covered) == 1 and "" not in covered:
        return f" (complete: {covered.pop()})"
    return f" within the budget (sampled: strategy {run.plan.strategy}, seed {run.plan.seed})"


def _program_line(program: ProgramRecord, width: int) -> str:
    text = f"{program.id.ljust(width)}  {WORDS[program.verdict].ljust(14)}"
    if program.verdict is Verdict.NOT_APPLICABLE:
        return f"{text} {program.reason}"
    text += f" {_count(program.schedules, 'schedule'):>16} {program.duration_s:7.1f} s"
    if program.completeness:
        text += f"  complete: {program.completeness}"
    elif program.verdict is Verdict.INCONCLUSIVE:
        text += f"  {program.reason}"
    elif program.failures:
        text += f"  {'; '.join(program.failures)}"[:100]
    return text


def failure_lines(failure: FailureRecord, target: str) -> list[str]:
    """One failure: what, where, the story, the token."""
    head = f"{failure.invariant} violated: " if failure.invariant else f"{failure.kind}: "
    message = failure.message.removeprefix(f"{failure.kind}: ")
    many = len(failure.programs) - 1
    also = (
        f" (and {many} more: {', '.join(p for p in failure.programs if p != failure.program)})"
        if many
        else ""
    )
    lines = [f"{head}{message}", ""]
    lines += [f"  target     {target}"] if failure.target else []
    lines += [
        f"  {'scenario ' if failure.target else 'program  '}  {failure.program}{also}",
        f"  schedule   {_cost(failure)}; replayed {failure.reproduced}/{failure.replays}",
        "",
        *table(failure.story),
    ]
    if failure.detail and failure.kind != "contract":
        # The last line of a traceback, or the whole wait-for graph.
        shown = failure.detail.strip().splitlines()
        if failure.kind == "exception":
            shown = shown[-1:]
        lines += ["", *(f"  {line}" for line in shown[:DETAIL_LINES])]
    lines.append("")
    for finding in failure.findings[:3]:
        lines += [f"  expected   {finding.expected}"] if finding.expected else []
        lines += [f"  found      {finding.found}"] if finding.found else []
        break
    lines.append(f"  replay     {failure.replay}")
    if "+" not in failure.program:  # an order without its strikes shows nothing
        promote = failure.replay.replace("omni-verify replay", "omni-verify promote", 1)
        lines.append(f"  keep it    {promote}")
    return lines


def _cost(failure: FailureRecord) -> str:
    counts = ((failure.preemptions, "preemption"), (failure.switches, "switch"), (failure.steps, "step"))
    parts = [f"{n} {word if n == 1 else word + ('es' if word == 'switch' else 's')}" for n, word in counts]
    return f"{', '.join(parts)}; found at schedule {failure.execution}"


def table(rows: Sequence[Row]) -> list[str]:
    """A story as a table."""
    if not rows:
        return []
    cells = [(str(r.step), r.actor, r.point, " ".join(filter(None, (r.key, r.detail)))) for r in rows]
    head = ("#", "actor", "point", "key and detail")
    widths = [max(len(c[i]) for c in (head, *cells)) for i in range(3)]
    return [
        f"  {c[0].rjust(widths[0])}  {c[1].ljust(widths[1])}  {c[2].ljust(widths[2])}  {c[3]}".rstrip()[:140]
        for c in (head, *cells)
    ]


def replay_lines(report: ReplayReport) -> list[str]:
    """Outcome of a replay."""
    answer = report.answer
    said = {
        "VIOLATED": "the recorded failure shows again",
        "FIXED": "the program follows the schedule and does not fail",
        "DIVERGED": "the program no longer follows the schedule",
        "ERROR": "it fails, but not as recorded",
    }
    lines = [f"{report.outcome}: {said.get(report.outcome, report.outcome)}", ""]
    lines += [f"  target     {report.target}"] if report.target else []
    lines.append(f"  program    {report.program}")
    if report.by_name:
        lines.append("  by name    the choices no longer fit; its switches were followed by actor and point")
    if answer.diverged is not None:
        step, expected, got = answer.diverged
        lines += [f"  step       {step}", f"  expected   {expected}", f"  got        {got}"]
    if answer.message:
        lines.append(f"  failure    {answer.message}")
    lines += ["", *table(answer.story), ""] if answer.message else []
    graph = answer.detail.strip().splitlines()
    if graph and not answer.findings and not graph[0].startswith("Traceback"):
        lines += [*(f"  {line}" for line in graph[:DETAIL_LINES]), ""]
    lines.append(f"  trace      {answer.digest}")
    if len(answer.outcomes) > 1:
        same = sum(o == report.outcome for o in answer.outcomes)
        traces = "the same trace" if answer.digests == 1 else f"{answer.digests} different traces"
        lines.append(f"  repeated   {same}/{len(answer.outcomes)} {report.outcome}, {traces}")
    return lines


def progress_line(done: Sequence[ShardResult], programs: int) -> str:
    """One line while the search runs."""
    failed = len({f.identity for shard in done for f in shard.failures})
    seen = len({shard.program for shard in done})
    return (
        f"{_count(sum(s.schedules for s in done), 'schedule')}, {seen} of {programs} programs begun, "
        f"{_count(failed, 'distinct failure')}"
    )
