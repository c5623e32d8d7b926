"""The terminal report: one line a case, then each violation as a story, then the verdict.

Results go to stdout, progress to stderr. On a terminal a live line shows what runs; elsewhere, under
``CI`` and with ``NO_COLOR`` everything is plain lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from omni_verify.campaign import events
from omni_verify.campaign.result import RunResult
from omni_verify.harness.result import CaseResult
from omni_verify.report.silence import silence
from omni_verify.report.story import residue_text, story, target_text
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict

__all__ = ["TerminalReporter", "consoles", "summary_line"]

MARKS = {
    Verdict.HELD: ("held", "green"),
    Verdict.VIOLATED: ("VIOLATED", "bold red"),
    Verdict.INCONCLUSIVE: ("INCONCLUSIVE", "bold yellow"),
    Verdict.NOT_APPLICABLE: ("not applicable", "dim"),
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Go on in silence when the reader has gone, as head does: files and exit code still count."""
        self.quiet = True
        silence(self.file)


def consoles(*, result_to_stderr: bool = False) -> tuple[Console, Console]:
    """Console for results and console for progress; plain and unwrapped unless they are terminals."""
    quiet_colour = "NO_COLOR" in os.environ or "CI" in os.environ
    out = _Console(highlight=False, soft_wrap=True, stderr=result_to_stderr, no_color=quiet_colour or None)
    err = _Console(highlight=False, soft_wrap=True, stderr=True, no_color=quiet_colour or None)
    return out, err


def summary_line(result: RunResult) -> str:
    """Counts and wall time of a run in one line."""
    counts = [
        f"{n} {verdict.value.replace('_', ' ')}" for verdict in Verdict if (n := result.count(verdict)) > 0
    ]
    noun = "scenario" if len(result.cases) == 1 else "scenarios"
    return f"{len(result.cases)} {noun}: {', '.join(counts) or 'none ran'} in {result.duration_s:.1f} s"


class TerminalReporter:
    """Writes to two consoles.

    Args:
        out: where results go.
        err: where progress goes.
        verbosity: -1 verdict only, 0 normal, 1 also the invariants of each case and side findings.
        evidence_of: folder with the evidence of a case; None without a store.
    """

    def __init__(
        self,
        out: Console,
        err: Console,
        *,
        verbosity: int = 0,
        evidence_of: Callable[[str], object] | None = None,
    ) -> None:
        self.out, self.err, self.verbosity = out, err, verbosity
        self._evidence_of = evidence_of
        self._told: list[CaseResult] = []
        self._known: set[str] = set()
        self._info: TargetInfo | None = None
        self._running: list[str] = []
        self._width = 40
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def handle(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.TargetLoading():
                if self.verbosity >= 0:
                    self.err.print(f"loading {event.spec} ...", style="dim", markup=False)
            case events.RunStarted():
                self._begin(event)
            case events.CaseStarted():
                self._running.append(event.id)
                self._advance(0)
            case events.CaseFinished():
                self._case(event)
            case events.RunFinished():
                self.finish()
                self._end(event.result)

    def finish(self) -> None:
        """Stop the live line."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _begin(self, event: events.RunStarted) -> None:
        self._info = event.target
        self._width = max(map(len, event.cases), default=0)
        if self.verbosity >= 0:
            where = "private /dev/shm" if event.isolation == "mount" else "key prefix on the common /dev/shm"
            self._line(f"target {target_text(event.target)} · {where} · {event.jobs} at a time")
            if event.isolation_reason:
                self.err.print(f"no private /dev/shm: {event.isolation_reason}", style="yellow", markup=False)
        if self.err.is_terminal and "CI" not in os.environ and self.verbosity >= 0:
            # one live console per terminal, or its redraws would cut the case lines
            console = self.out if self.out.is_terminal else self.err
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._progress.add_task("", total=len(event.cases))
            self._progress.start()

    def _advance(self, steps: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=steps, description=", ".join(self._running)[:70])

    def _case(self, event: events.CaseFinished) -> None:
        case = event.case
        if case.id in self._running:
            self._running.remove(case.id)
        self._advance(1)
        if case.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
            self._told.append(case)
        if event.expected is Verdict.VIOLATED and case.verdict is Verdict.VIOLATED:
            self._known.add(case.id)
        if self.verbosity < 0:
            return
        word, style = MARKS[case.verdict]
        text = Text(f"{case.id.ljust(self._width)}  ")
        text.append(word.ljust(14), style=style)
        text.append(f" {case.duration_s:6.2f} s")
        note = "known" if case.id in self._known else ""
        if case.verdict is not Verdict.HELD:
            ids = ", ".join(dict.fromkeys(f.invariant for f in case.findings))
            note = ": ".join(filter(None, (note, ids or case.reason)))
        elif self.verbosity > 0:
            note = ", ".join(case.invariants)
        text.append(f"  {note}".rstrip())
        self._line(text)

    def _end(self, result: RunResult) -> None:
        for case in sorted(self._told, key=lambda c: c.id):
            if case.id not in self._known or self.verbosity > 0:
                self._story(case)
        self._line("")
        self._line(Text(summary_line(result)))
        left = residue_text(result.residue)
        if left and self.verbosity >= 0:
            self._line(f"left behind by the target (removed by the harness): {left}")
        self._gate(result)
        if result.interrupted:
            self._line(Text(f"interrupted by {result.interrupted}; the results are partial", style="yellow"))
        word, style = MARKS[result.verdict]
        self._line(Text.assemble("verdict: ", (word, style)))

    def _story(self, case: CaseResult) -> None:
        if self._info is None or self.verbosity < 0:
            return
        evidence = str(self._evidence_of(case.id)) if self._evidence_of else ""
        head, *rest = story(case, self._info, evidence)
        self._line("")
        self._line(Text(head, style=MARKS[case.verdict][1]))
        self._line(Text("\n".join(rest)))
        for side in case.side_findings if self.verbosity > 0 else ():
            self._line(Text(f"  side finding {side.invariant}: {side.message}", style="dim"))

    def _gate(self, result: RunResult) -> None:
        if result.gate is None:
            return
        for problem in result.gate:
            self._line(
                Text(f"{problem.kind.replace('_', ' ')}: {problem.id}: {problem.message}", style="bold red")
            )
        word = "as expected" if not result.gate else f"{len(result.gate)} differ from what is expected"
        self._line(f"known failures: {len(self._known)} cases violated as listed; {word}")

    def _line(self, text: str | Text) -> None:
        self.out.print(text, markup=False)
