"""Kills any one process of the reference pipeline at any phase, and looks at what is left (I53, W28).

A phase is hit by an event: a stage stops at a point, and the victim is killed while it stands there. Then:

* while the pipeline lives, nothing is called an orphan, what is left is allowed (`kills.patterns`), and the
  next request is served;
* when it has ended, everything that is left is a proven orphan, `clean` removes all of it and nothing else,
  and the next pipeline starts and serves.

Runs in a private /dev/shm, as a process of its own: see `kills.program`.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Sequence

import msgspec

from omni_verify.audit import Audit, Finding, Judgement, Scope, ServerTrees, clean, take_audit
from omni_verify.campaign.kills.driver import Hold, PipelineUnderKill
from omni_verify.campaign.kills.patterns import allowance
from omni_verify.contracts.keys import SHM_ROOT
from omni_verify.errors import OmniVerifyError

__all__ = ["FULL", "PHASES", "QUICK", "VICTIMS", "Cell", "KillMatrix", "Plan"]

PHASES = ("idle", "admission", "first-chunk", "mid-stream", "release", "abort", "shutdown")
"""Idle; a stage is about to admit; its first chunk is about to be put; an unread chunk lies there; its last
chunk was read and not yet released; an abort arrives while a chunk lies unread; a stage is about to close."""

VICTIMS = ("stage0", "stage1", "stage2", "tracker", "parent", "all")
"""``all`` kills every process at once, as the kernel does with a container; no single kill leaves more."""

Plan = Iterable[tuple[str, Sequence[str]]]

FULL: Plan = tuple((phase, VICTIMS if phase == "mid-stream" else VICTIMS[:-1]) for phase in PHASES)
"""Every process at every phase, and all at once in the middle of a stream."""

QUICK: Plan = (("mid-stream", ("stage1", "all")),)
"""What fits into a normal test run."""

_FRAMES, _FEW_FRAMES = 4000, 60
_FOREIGN = ("psm_kill_matrix", "kill-matrix.notes", "torch_1_2_3")


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One kill.

    Attributes:
        phase, victim: what was killed when.
        pids: who was killed.
        left: kinds and names of what was there after it, ``orphan segment ...``.
        removed: how many orphans were removed.
        served: a request was served afterwards, by the same pipeline or by the next one.
        problems: what contradicts the contract; empty when all is well.
        seconds: wall time.
    """

    phase: str
    victim: str
    pids: tuple[int, ...] = ()
    left: tuple[str, ...] = ()
    removed: int = 0
    served: bool = False
    problems: tuple[str, ...] = ()
    seconds: float = 0.0


class KillMatrix:
    """Runs cells in the current /dev/shm, which must be private to this process and its children.

    Args:
        emit: takes each cell when it is complete.
    """

    def __init__(self, emit: Callable[[Cell], None]) -> None:
        self._emit = emit
        self._tag = f"ovkill{uuid.uuid4().hex[:8]}"
        self._requests = 0
        self._waiting: list[Cell] = []

    def run(self, plan: Plan) -> None:
        """Run phases with their victims. Victims whose death ends the pipeline come last in a phase."""
        foreign = _make_foreign()
        for phase, victims in plan:
            living = [v for v in victims if phase != "shutdown" and v not in ("parent", "all")]
            ending = [v for v in victims if v not in living] or [""]
            for number, last in enumerate(ending):
                self._with_pipeline(phase, living if number == 0 else [], last)
        self._with_pipeline("", [], "")
        if _identities(_FOREIGN) != foreign:
            raise OmniVerifyError("files of other programs were touched")
        for name in _FOREIGN:
            os.unlink(os.path.join(SHM_ROOT, name))

    def _with_pipeline(self, phase: str, living: Sequence[str], last: str) -> None:
        """Start a pipeline, serve one request, kill at the phase; the last kill ends the pipeline."""
        with PipelineUnderKill(scope=self._tag) as pipeline:
            pipeline.wait_up()
            trees = ServerTrees([pipeline.parent])
            take_audit(Scope(prefix=self._tag), trees)
            self._serve_one(pipeline)
            self._release_waiting()
            for victim in living:
                self._emit(self._kill_and_go_on(pipeline, phase, victim))
            if last:
                self._waiting.append(self._kill_and_end(pipeline, phase, last, trees))
            else:
                pipeline.close()
                pipeline.wait_ended(pipeline.everybody())

    def _release_waiting(self) -> None:
        """The pipeline after the one that a kill has ended has started and served: its cell is complete."""
        for cell in self._waiting:
            self._emit(msgspec.structs.replace(cell, served=True))
        self._waiting = []

    # -- one cell --------------------------------------------------------------------------------

    def _kill_and_go_on(self, pipeline: PipelineUnderKill, phase: str, victim: str) -> Cell:
        began, request = time.monotonic(), self._request()
        earlier = _identities_of(take_audit(Scope()))
        self._reach(pipeline, phase, victim, request)
        pids = self._kill(pipeline, victim)
        pipeline.let_go()
        if victim.startswith("stage"):
            stage = int(victim.removeprefix("stage"))
            pipeline.until(lambda: pipeline.stages[stage] not in pids, f"the successor of stage {stage}")
        else:
            pipeline.abort(request)  # no request dies with the tracker; those of a stage end by themselves
        pipeline.wait_rest()
        audit = take_audit(Scope())
        problems = _compare(audit, victim, ended=False, earlier=earlier)
        self._serve_one(pipeline)
        return Cell(
            phase=phase,
            victim=victim,
            pids=pids,
            left=_left(audit, earlier=earlier),
            served=True,
            problems=tuple(problems),
            seconds=time.monotonic() - began,
        )

    def _kill_and_end(self, pipeline: PipelineUnderKill, phase: str, victim: str, trees: ServerTrees) -> Cell:
        began, request = time.monotonic(), self._request()
        self._reach(pipeline, phase, victim, request)
        before = take_audit(Scope())
        problems = [f"called an orphan while all lived: {f.item.name}" for f in before.orphans]
        take_audit(Scope(prefix=self._tag), trees)
        everybody = pipeline.everybody()
        pids = self._kill(pipeline, victim)
        pipeline.let_go()
        pipeline.wait_ended(everybody)
        audit = take_audit(Scope())
        problems += _compare(audit, victim, ended=True)
        problems += [f"not proven to be an orphan: {line}" for line in _left(audit, but=Judgement.ORPHAN)]
        followed = take_audit(Scope(prefix=self._tag), trees)
        if {f.item.name for f in followed.orphans} != {f.item.name for f in audit.orphans}:
            problems.append("following the pipeline's tree gives other orphans than the whole look")
        removals = clean(audit.orphans, Scope())
        problems += [f"not removed: {r.name}: {r.kept}" for r in removals if r.kept]
        problems += [f"still there: {f.item.name}" for f in take_audit(Scope()).findings]
        return Cell(
            phase=phase,
            victim=victim,
            pids=pids,
            left=_left(audit),
            removed=sum(not r.kept for r in removals),
            problems=tuple(problems),
            seconds=time.monotonic() - began,
        )

    def _reach(self, pipeline: PipelineUnderKill, phase: str, victim: str, request: str) -> None:
        """Bring the pipeline into the phase, as seen by the victim, and stop there."""
        if phase == "idle":
            pipeline.wait_rest()
            return
        stage = int(victim[-1]) if victim.startswith("stage") else 1
        sender = min(stage, 1)
        unread = Hold(stage=sender + 1, point="get.enter", request=request, chunk=1)
        if stage == 2 and phase in ("abort", "shutdown"):
            # a stage that stands at a point cannot come to a second one
            unread = Hold(stage=1, point="put.exit", request=request, chunk=1)
        targets = {
            "admission": Hold(stage=stage, point="add", request=request),
            "first-chunk": Hold(stage=sender, point="put.enter", request=request, chunk=0),
            "mid-stream": Hold(stage=sender, point="put.exit", request=request, chunk=1),
            "release": Hold(stage=sender, point="release", request=request),
            "abort": Hold(stage=stage, point="abort", request=request),
            "shutdown": Hold(stage=stage, point="close"),
        }
        target = targets[phase]
        if phase in ("mid-stream", "abort", "shutdown"):
            pipeline.hold(unread, target)
            pipeline.submit(request, _FRAMES)
            pipeline.wait_held(target if phase == "mid-stream" else unread)
            if phase == "abort":
                pipeline.abort(request)
            elif phase == "shutdown":
                pipeline.close()
        else:
            pipeline.hold(target)
            pipeline.submit(request, _FEW_FRAMES if phase == "release" else _FRAMES)
        pipeline.wait_held(target)

    def _kill(self, pipeline: PipelineUnderKill, victim: str) -> tuple[int, ...]:
        match victim:
            case "parent":
                pids = [pipeline.parent]
            case "tracker":
                pids = [pipeline.tracker]
            case "all":
                pids = pipeline.everybody()
            case _:
                pids = [pipeline.stages[int(victim[-1])]]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # so that none sees another die
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        pipeline.wait_ended(pids)
        return tuple(pids)

    def _serve_one(self, pipeline: PipelineUnderKill) -> None:
        request = self._request()
        pipeline.submit(request, 8)
        pipeline.until(lambda: request in pipeline.results, f"request {request} to be served")
        if pipeline.results[request] != "done":
            raise OmniVerifyError(f"a request was not served: {pipeline.results[request]}")
        pipeline.wait_rest()

    def _request(self) -> str:
        self._requests += 1
        return f"{self._tag}-{self._requests}"


def _compare(
    audit: Audit, victim: str, *, ended: bool, earlier: frozenset[tuple[int, int]] = frozenset()
) -> list[str]:
    """Return what the allowed patterns do not cover, of what was not there `earlier`."""
    allowed = allowance(victim, ended=ended)
    problems = []
    for finding in audit.findings:
        kinds = allowed.living if finding.judgement is Judgement.LIVE else allowed.dead
        if finding.item.meaning.kind not in kinds and finding.item.identity not in earlier:
            problems.append(f"not allowed after the death of {victim}: {_say(finding)}")
        if not ended and finding.judgement is Judgement.ORPHAN:
            problems.append(f"called an orphan while the pipeline lives: {finding.item.name}")
    return problems


def _say(finding: Finding) -> str:
    return f"{finding.judgement} {finding.item.meaning.kind} {finding.item.name}"


def _left(
    audit: Audit, *, but: Judgement | None = None, earlier: frozenset[tuple[int, int]] = frozenset()
) -> tuple[str, ...]:
    return tuple(_say(f) for f in audit.findings if f.judgement is not but and f.item.identity not in earlier)


def _identities_of(audit: Audit) -> frozenset[tuple[int, int]]:
    return frozenset(f.item.identity for f in audit.findings)


def _make_foreign() -> list[tuple[str, int, bytes]]:
    for name in _FOREIGN:
        with open(os.path.join(SHM_ROOT, name), "w") as file:
            file.write(name)
    return _identities(_FOREIGN)


def _identities(names: Iterable[str]) -> list[tuple[str, int, bytes]]:
    found = []
    for name in names:
        path = os.path.join(SHM_ROOT, name)
        with open(path, "rb") as file:
            found.append((name, os.stat(path).st_ino, file.read()))
    return found
