"""``omni-verify audit``: what lies in shared memory on this host, who has it, what is left behind."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from omni_verify.audit import Audit, Removal, Scope, ServerTrees, Sighting, Watch, WatchCounts, take_audit
from omni_verify.audit import clean as remove_orphans
from omni_verify.audit.neighbours import look_around
from omni_verify.cli import options
from omni_verify.cli.durations import seconds_of
from omni_verify.errors import UsageError
from omni_verify.report import check_writable, consoles, write_json
from omni_verify.report.audit import audit_table, document, removal_lines, watch_line

__all__ = ["audit"]

_SUMMARY_S = 10.0
_LOOK_S = 2.0


def audit(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show files as they come and go, then judge what is left.")
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="End the watch after 500ms, 30s, 5m, 2h or 1d."),
    ] = None,
    pid: Annotated[
        list[int] | None,
        typer.Option(
            "--pid",
            metavar="PID",
            min=1,
            help="Follow the process tree of this server; may be repeated. With --prefix it states that "
            "what has the prefix is theirs.",
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Only requests whose external id starts so.")
    ] = "",
    json: options.Json = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove proven orphans, after asking; nothing else is touched.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --clean: do not ask.")] = False,
    private_shm: Annotated[
        bool,
        typer.Option(
            "--private-shm",
            help="State that no process outside this container uses its shared memory; without it nothing "
            "can be proven to be an orphan in a container.",
        ),
    ] = False,
) -> None:
    """Say who has each segment, lock file, FIFO and journal, and whether it is live, unread or an orphan.

    Works on any host, with the reference and with vllm-omni; reads, and changes nothing without --clean.
    Exits 1 when orphans are left, 0 when there are none, 2 on wrong options. The rule is in
    docs/guides/audit.md.
    """
    if duration is not None and not watch:
        raise UsageError("--for says how long to watch: give --watch too.")
    if yes and not clean:
        raise UsageError("--yes answers what --clean asks: give --clean too.")
    if clean and not yes and not sys.stdin.isatty():
        raise UsageError(
            "--clean asks before it removes anything, and there is no terminal to ask at. "
            "Look at the list without --clean first, then give --clean --yes."
        )
    check_writable(json)
    seconds = None if duration is None else seconds_of(duration, "--for")
    scope = Scope(prefix=prefix, sees_all=private_shm)
    trees = ServerTrees(pid) if pid else None
    out, err = consoles(result_to_stderr=json == "-")
    watched, interrupted = _watch(scope, trees, seconds, out, err) if watch else (None, "")
    found = take_audit(scope, trees)
    audit_table(out, found)
    if trees is not None and not trees.is_complete:
        gone = ", ".join(str(p) for p in trees.roots if p not in {root for root, _ in trees.members})
        err.print(f"no process {gone}: its children cannot be told from others any more", markup=False)
    removals = _clean(found, scope, trees, out, err, yes=yes) if clean else ()
    if json is not None:
        write_json(json, document(found, removals, watched=watched, interrupted=interrupted))
    left = [r for r in removals if r.kept] if removals else found.orphans
    raise typer.Exit(1 if left else 0)


def _watch(
    scope: Scope, trees: ServerTrees | None, seconds: float | None, out: Console, err: Console
) -> tuple[WatchCounts, str]:
    """Watch until the time is over or a signal ends it; returns the counts and the signal's name."""
    device = os.stat(scope.root).st_dev
    with Watch(scope.root, scope.prefix) as watch:
        told_at, looked_at = 0.0, -_LOOK_S
        status = err.status("watching") if err.is_terminal and out.is_terminal else None

        def handle(sighting: Sighting) -> None:
            out.print(watch_line(sighting), markup=False)

        def turn() -> None:
            nonlocal told_at, looked_at
            if trees is not None:
                is_due = watch.counts.seconds - looked_at >= _LOOK_S
                trees.update(look_around(device if is_due else None), are_known=is_due)
                looked_at = watch.counts.seconds if is_due else looked_at
            if status is not None:
                status.update(_summary(watch.counts))
            elif watch.counts.seconds - told_at >= _SUMMARY_S:
                told_at = watch.counts.seconds
                err.print(_summary(watch.counts), markup=False)

        interrupted = ""
        try:
            if status is not None:
                status.start()
            turn()
            err.print(f"watching {scope.root}; Ctrl-C ends it with the judgement", markup=False)
            watch.run(seconds, handle, turn)
        except KeyboardInterrupt as stop:
            interrupted = str(stop) or "SIGINT"
        finally:
            if status is not None:
                status.stop()
        err.print(_summary(watch.counts), markup=False)
        return watch.counts, interrupted


def _summary(counts: WatchCounts) -> str:
    created, removed = counts.created.get("segment", 0), counts.removed.get("segment", 0)
    return (
        f"{counts.seconds:.0f} s: {created} segments created, {removed} removed, {counts.present} present "
        f"(at most {counts.most_present})"
    )


def _clean(
    found: Audit, scope: Scope, trees: ServerTrees | None, out: Console, err: Console, *, yes: bool
) -> tuple[Removal, ...]:
    if not found.orphans:
        return ()
    if not yes and not _confirmed(f"Remove these {len(found.orphans)} orphans?"):
        err.print("nothing was removed", markup=False)
        return tuple(Removal(name=f.item.name, kept="not confirmed") for f in found.orphans)
    removals = remove_orphans(found.orphans, scope, trees)
    for line in removal_lines(removals):
        out.print(line, markup=False)
    return removals


def _confirmed(question: str) -> bool:
    """Ask; no answer, which is an end of input or Ctrl-C, is no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False
