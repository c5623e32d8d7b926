"""The runner of one case: a scenario against a loaded target, in this process."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any

from omni_verify.checks import attribute, run_common
from omni_verify.checks.liveness import check_blocked, check_failures
from omni_verify.checks.observation import Broken, Observation
from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.points import OPERATIONS
from omni_verify.engine.runtime import Cut
from omni_verify.errors import UsageError
from omni_verify.faults.nemeses import NemesisSpec, choose
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.harness.siege import ALWAYS_JUDGED, Siege
from omni_verify.settings import Settings
from omni_verify.targets.protocol import Target
from omni_verify.trace.event import Event
from omni_verify.verdict import Evidence, Verdict, judge

__all__ = ["compact", "own_resource_tracker", "run_case"]

_OWN_ROOMS = ("omni_verify.engine", "omni_verify.harness")
# Not what only this harness does, nor what happens to a target that merely exists and is closed.
_TARGET_OPERATIONS = frozenset(OPERATIONS) - {"tick", "step", "reap", "close", "shutdown"}
_LOG_LINES = 60
_TRACE_EVENTS = 2000
_log = logging.getLogger(__name__)


def run_case(
    target: Target,
    scenario: Scenario,
    *,
    settings: Settings | None = None,
    prefix: str = "",
    isolation: str = "mount",
    nemeses: Sequence[str] = (),
) -> CaseResult:
    """Run one scenario under its scripted order on real threads and judge it.

    With nemeses it is judged by the contracts that hold whatever strikes, see `omni_verify.harness.siege`; it
    does not apply where nothing was struck, or where its order cannot be kept under what was.

    The caller has put this process where nothing else lives: a forked child with its own tmpfs on
    /dev/shm (``isolation="mount"``), or at least a unique `prefix` (``isolation="prefix"``).

    Raises:
        Nothing of the target's: whatever it raises is a finding or makes the case inconclusive.
    """
    settings = settings or Settings()
    began = time.monotonic()
    missing, specs = scenario.missing(target.capabilities), choose(nemeses, target.capabilities)
    if missing or (scenario.isolation == "mount" and isolation != "mount"):
        why = f"the target lacks: {', '.join(missing)}" if missing else "it needs a private mount namespace"
        return _not_applicable(scenario, why)
    if nemeses and (why := _out_of_reach(scenario, specs)):
        return _not_applicable(scenario, why)
    own_resource_tracker()
    order = PartialOrder()
    runtime = ThreadRuntime(order, gate_s=settings.gate_s, wait_s=settings.wait_s, prefix=prefix)
    with _captured_log() as log:
        script = Script(target, runtime, order, prefix, settings=settings)
        siege = Siege(script, specs, strikes=sum(s.strikes for s in specs)) if specs else None
        try:
            _drive(script, scenario)
        finally:
            script.patcher.undo()
    duration = time.monotonic() - began
    return (
        _result(script, scenario, log, duration)
        if siege is None
        else _besieged(siege, scenario, log, duration)
    )


def _not_applicable(scenario: Scenario, why: str) -> CaseResult:
    return CaseResult(
        id=scenario.id, verdict=Verdict.NOT_APPLICABLE, reason=why, invariants=scenario.invariants
    )


def _out_of_reach(scenario: Scenario, specs: list[NemesisSpec]) -> str:
    """Why nemeses say nothing of a scenario; empty when they may."""
    if scenario.processes:
        return "its processes run apart: a nemesis roams in one process"
    if not specs:
        return "the target lacks what the nemeses strike at"
    if not set(scenario.invariants) & set(ALWAYS_JUDGED):
        return "its contracts are those of a run without faults"
    return ""


def _besieged(siege: Siege, scenario: Scenario, log: list[str], duration: float) -> CaseResult:
    """Judge by the contracts that hold under any strike, and only what the strikes have not cut short."""
    script = siege.script
    unobserved = script.order.unobserved(script.runtime.trace)
    unreached = [str(r) for r in script.required if r.find(script.runtime.trace) is None]
    if not siege.roaming.struck:
        return _not_applicable(scenario, "nothing that it does gave a nemesis a chance to strike")
    if not script.stages:
        return _not_applicable(scenario, "it drives a connector alone: no stage is there to bear a strike")
    if script.seen.cut or unobserved or unreached:
        why = script.seen.cut or ", ".join([*unobserved, *unreached])
        return _not_applicable(scenario, f"its order cannot be kept under {siege.names}: {why}")
    judged = tuple(i for i in scenario.invariants if i in ALWAYS_JUDGED)
    return _verdict(script, scenario.id, judged, siege.broken(), log, duration)


def _drive(script: Script, scenario: Scenario) -> None:
    """Run the program, then the epilogue; keep what went wrong as observations."""
    runtime = script.runtime
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("program", lambda: scenario.program(script)),
        ("quiesce", script.quiesce),
        ("shutdown", script.shutdown),
    )
    for name, step in steps:
        try:
            step()
        except Cut as cut:
            script.seen.cut = script.seen.cut or str(cut)
        except (Exception, SystemExit) as error:
            text = f"{type(error).__name__}: {error}"
            _log.warning("%s raised %s", name, text, exc_info=True)
            if _is_misuse(error):
                script.seen.cut = script.seen.cut or f"the scenario is wrong: {error}"
            elif not runtime.cut:
                script.errors[name], script.seen.failures[name] = error, text
    script.seen.trace = list(runtime.trace)
    script.errors |= runtime.failures
    script.seen.failures |= {a: f"{type(e).__name__}: {e}" for a, e in runtime.failures.items()}
    if runtime.cut:
        script.seen.cut = runtime.cut
        script.seen.blocked = script.blocked_verbs()


def _is_misuse(error: BaseException) -> bool:
    """Tell whether a scenario misused the harness (a cyclic order, say): no fault of the target."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    raised_in = where.tb_frame.f_globals["__name__"] if where else ""
    return isinstance(error, UsageError) and raised_in.startswith(_OWN_ROOMS)


def _result(script: Script, scenario: Scenario, log: list[str], duration: float) -> CaseResult:
    seen = script.seen
    # After a cut the gates were opened by force: of what was seen, only what came before it counts.
    common = [*check_blocked(seen), *check_failures(seen)] if seen.cut else run_common(seen)
    return _verdict(script, scenario.id, scenario.invariants, script.broken + common, log, duration)


def _verdict(
    script: Script, case: str, judged: tuple[str, ...], broken: list[Broken], log: list[str], duration: float
) -> CaseResult:
    runtime, seen = script.runtime, script.seen
    findings, side = attribute(broken, judged)
    evidence = Evidence(
        actors=tuple(runtime.actors) or ("main",),
        finished=tuple(runtime.finished) or (() if runtime.actors or seen.cut else ("main",)),
        orders=tuple(script.order.texts()),
        unobserved=tuple(script.order.unobserved(runtime.trace)),
        unreached=tuple(str(r) for r in script.required if r.find(runtime.trace) is None),
        checked=script.checked + len(seen.delivered) + _audits(seen),
        cut=seen.cut,
    )
    verdict, reason = judge(findings, evidence)
    closed = seen.closed or []
    return CaseResult(
        id=case,
        verdict=verdict,
        reason=reason,
        findings=findings,
        side_findings=side,
        evidence=evidence,
        trace=compact(seen.trace, script.order),
        residue=Residue(
            segments=tuple(n for n in closed if not n.endswith(".lock") and not n.startswith("omni_shm_")),
            locks=tuple(n for n in closed if n.endswith(".lock")),
            fifos=tuple(n for n in closed if n.startswith("omni_shm_")),
        ),
        invariants=judged,
        stacks=runtime.stacks,
        log=log[:_LOG_LINES],
        duration_s=duration,
    )


def _audits(seen: Observation) -> int:
    """How many audits looked at something: one of a directory that nobody touched shows nothing."""
    touched = any(event.point.rpartition(".")[0] in _TARGET_OPERATIONS for event in seen.trace)
    return touched * ((seen.quiet is not None) + (seen.closed is not None))


def compact(trace: list[Event], order: PartialOrder) -> list[Event]:
    """Drop the polls that found nothing and the idle rounds that no order speaks of.

    A waiting consumer polls a thousand times a second; those events decide waits while the case
    runs, and nobody reads them afterwards.
    """
    named = {(r.point, r.key) for r in order.refs()}

    def boring(event: Event) -> bool:
        if (event.point, event.key) in named or (event.point, "*") in named:
            return False
        if event.point.startswith(("idle.", "reap.", "poll.")):
            return True
        return (
            event.point.startswith(("get.", "lock.", "seg.open"))
            and not event.detail.get("found")
            and event.actor.endswith(".recv")
        )

    return [e for e in trace if not boring(e)][:_TRACE_EVENTS]


def own_resource_tracker() -> None:
    """Give this process a resource tracker of its own, inside its namespace.

    Before Python 3.13 every `SharedMemory` registers with the tracker, which unlinks leftovers *by
    name* when it ends. A tracker inherited from outside the private /dev/shm would unlink there,
    where the same name can belong to another program (W29).
    """
    tracker: Any = vars(resource_tracker)["_resource_tracker"]
    if tracker._fd is not None:
        with contextlib.suppress(OSError):
            os.close(tracker._fd)
        tracker._fd = tracker._pid = None


@contextlib.contextmanager
def _captured_log() -> Iterator[list[str]]:
    """Keep the target's warnings and errors as text instead of printing them."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if len(lines) < _LOG_LINES:
                lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    root = logging.getLogger()
    before, root.handlers = root.handlers, [Keep(logging.WARNING)]
    try:
        yield lines
    finally:
        root.handlers = before
