"""One stage of a soak: the target's adapter under many requests, with no memory of those that are over.

It drives the same verbs as a scenario's `Stage`, on one scheduler thread. What a scenario keeps for its
checks (a trace, a ledger) would grow with the run and look like the target's leak, so here a request is
judged when it is over and then forgotten.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from omni_verify.checks.observation import Broken, Observation
from omni_verify.checks.streams import check_frames
from omni_verify.harness import dye
from omni_verify.harness.handle import Handle
from omni_verify.harness.soak.besieged import Siege
from omni_verify.harness.soak.messages import News, Over, StageOptions
from omni_verify.harness.soak.plan import Plan
from omni_verify.harness.stage import Stage
from omni_verify.targets.protocol import Target

__all__ = ["SoakStage"]

_MOST_SEQS = 4096
"""Bound of running requests: the soak's own concurrency is the limit, not the stage's scheduler."""


class _Runtime:
    """A runtime that lets everything pass and keeps nothing."""

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Pass."""


class _Script:
    """The part of a scenario's script that a `Stage` needs, without its memory."""

    def __init__(self, target: Target, prefix: str) -> None:
        self.target, self.prefix = target, prefix
        self.runtime = _Runtime()
        self.explored = False
        self.labels: dict[int, str] = {}

    def external(self, label: str) -> str:
        """External id of a label."""
        return f"{self.prefix}{label}"

    def number(self, label: str) -> int:
        """Stream number of a label."""
        return dye.stream_number(label)

    def label_of(self, number: int) -> str:
        """Label of a live stream's number."""
        return self.labels.get(number, f"unknown stream {number}")


class _Live(msgspec.Struct, kw_only=True):
    """A request on this stage until the soak forgets it."""

    plan: Plan
    handle: Handle
    emitted: int = 0
    relayed: int = 0
    read: int = 0
    ticks: int = 0
    told: bool = False
    over: bool = False
    mark: int = -1
    times: list[float] = []


class SoakStage:
    """The scheduler thread's part of a stage; every method runs on it.

    Args:
        target: loaded.
        options: of this stage.
    """

    def __init__(self, target: Target, options: StageOptions) -> None:
        self.options = options
        self.is_first, self.is_last = options.stage == 0, options.stage == options.stages - 1
        self._script = _Script(target, options.prefix)
        self.stage = Stage(
            self._script,  # type: ignore[arg-type]  # the few names that a stage uses
            options.stage,
            options.name,
            chunk=0,
            worker_type="generation" if self.is_last else "ar",
            receives=not self.is_first,
            max_num_seqs=_MOST_SEQS,
            extra={"wakeup_scope": options.prefix},
        )
        self.stage.relays = not (self.is_first or self.is_last)
        self.siege = Siege(target, self.stage, options)
        self.adapter = self.stage.adapter
        self._live: dict[int, _Live] = {}
        self._releasing: dict[int, int] = {}
        self._over: list[Over] = []
        self._left: list[int] = []
        self._forgotten: list[int] = []
        self._raised: list[str] = []

    @property
    def busy(self) -> bool:
        """Whether a round may change something without a new command."""
        return bool(self._releasing) or any(not live.over for live in self._live.values())

    # -- commands ------------------------------------------------------------------------------

    def submit(self, plans: Iterable[Plan]) -> None:
        """Admit requests."""
        for plan in plans:
            handle = self.stage.admit(plan.label, generation=plan.generation)
            self._script.labels[self._script.number(plan.label)] = plan.label
            live = self._live[plan.index] = _Live(plan=plan, handle=handle)
            if self.is_last and plan.kind == "abort-before" and not plan.flight:
                self._leave(live)

    def abort(self, indices: Iterable[int], *, at_once: bool = False) -> None:
        """Take note that clients have left; a producer ends when its plan says, unless `at_once`."""
        for index in indices:
            live = self._live.get(index)
            if live is None:
                continue
            live.told = True
            if at_once or live.over or not (self.is_first and live.plan.aborts):
                self._end(live)

    def forget(self, indices: Iterable[int], *, release: bool) -> None:
        """Release what ended requests left, where the target can, and confirm when it is gone."""
        release &= self._script.target.capabilities.release
        for index in indices:
            live = self._live.pop(index, None)
            if live is None:
                self._forgotten.append(index)
                continue
            handle = live.handle
            if handle in self.stage.handles:
                self.stage.handles.remove(handle)
            self.stage.send_failures.pop(handle.internal, None)
            self._script.labels.pop(self._script.number(handle.label), None)
            if release:
                # As an orchestrator does it: it knows the external id only, and ends the stream first.
                self._call(self.adapter.cleanup_sender, handle.external)
                self._call(self.adapter.release_shm_resources, handle.external)
            self._releasing[index] = self.siege.mark()

    # -- rounds --------------------------------------------------------------------------------

    def round(self) -> bool:
        """Emit, tick and judge once; return whether anything moved."""
        moved = False
        if not self.is_last:
            for live in [x for x in self._live.values() if not x.over]:
                moved |= self._produce(live)
        if not self.is_first and any(not x.over for x in self._live.values()):
            moved |= bool(self._call(self.stage.tick))
            for live in [x for x in self._live.values() if not x.over]:
                moved |= self._consume(live)
        self._confirm_releases()
        return moved

    def news(self) -> News | None:
        """Take what happened since the last call; None when nothing did."""
        strikes = self.siege.take_strikes()
        if not (self._over or self._left or self._forgotten or self._raised or strikes):
            return None
        news = News(
            over=self._over, left=self._left, forgotten=self._forgotten, strikes=strikes, raised=self._raised
        )
        self._over, self._left, self._forgotten, self._raised = [], [], [], []
        return news

    def shutdown(self) -> None:
        """Shut the adapter and its connector down, as at the end of a case."""
        self.adapter.shutdown()
        for thread in (self.adapter.save_thread, self.adapter.recv_thread):
            thread.join(5.0)
        self.stage.connector.close()

    # -- producer ------------------------------------------------------------------------------

    def _produce(self, live: _Live) -> bool:
        plan, handle = live.plan, live.handle
        if handle.sent.refused:
            self._finish(live, "failed", error=handle.sent.refused)
            return True
        if not self.is_first:
            return self._relay(live)
        if live.told and plan.flight and live.emitted >= plan.linger:
            self._end(live)
            return True
        if live.emitted < plan.chunks:
            live.emitted += 1
            self._call(self.stage.emit, handle, plan.frames)
            if live.emitted == plan.chunks and not plan.aborts:
                self._call(self.stage.end, handle)
                self._finish(live, "done")
            return True
        if live.mark < 0:
            live.mark = self.siege.mark()
        if live.told and self.siege.drained(live.mark):
            self._end(live)
            return True
        return False

    def _relay(self, live: _Live) -> bool:
        got = live.handle.got
        fresh = len(got.frames) // live.plan.frames - live.relayed
        for _ in range(fresh):
            live.relayed += 1
            self._call(self.stage.emit, live.handle, live.plan.frames)
        if got.finishes and not live.over and not got.error:
            self._call(self.stage.end, live.handle)
            self._finish(live, "done")
            return True
        return fresh > 0

    # -- consumer ------------------------------------------------------------------------------

    def _consume(self, live: _Live) -> bool:
        plan, got = live.plan, live.handle.got
        live.ticks += 1
        if got.error:
            self._finish(live, "failed", error=got.error)
            return True
        read = len(got.frames) // plan.frames
        moved = read > live.read
        if moved:
            live.times += [time.monotonic()] * (read - live.read)
            live.read = read
        if not self.is_last:
            return moved
        if plan.leaves and read >= plan.reads and (plan.reads or live.ticks > 1):
            self._leave(live)
        elif live.handle.over:
            self._finish(live, "done")
        else:
            return moved
        return True

    def _leave(self, live: _Live) -> None:
        if live.plan.kind == "stop-early":
            live.handle.got.aborted = True
            self._call(self.stage.finish, [live.handle], "FINISHED_STOPPED")
        else:
            self._call(self.stage.abort, live.handle)
            self._left.append(live.plan.index)
        self._finish(live, "left")

    # -- both ----------------------------------------------------------------------------------

    def _end(self, live: _Live) -> None:
        """Abort, also where this stage was done: it may still own unread chunks (I31)."""
        self._call(self.stage.abort, live.handle)
        self._finish(live, "aborted")

    def _finish(self, live: _Live, status: str, error: str = "") -> None:
        if live.over:
            return
        live.over = True
        if self.is_first and live.plan.leaves:
            self.siege.leak()
        plan, now = live.plan, time.monotonic()
        times = live.times
        self._over.append(
            Over(
                index=plan.index,
                generation=plan.generation,
                status=status,
                chunks=live.read if not self.is_first else live.emitted,
                first=times[0] - plan.submitted if times else 0.0,
                total=now - plan.submitted if status == "done" else 0.0,
                gaps=[b - a for a, b in itertools.pairwise(times)],
                broken=self._judge(live),
                error=error,
            )
        )

    def _judge(self, live: _Live) -> list[Broken]:
        """Judge the frames that this stage got: its own, in order, once; all of them when it saw the end."""
        if self.is_first:
            return []
        plan, got = live.plan, live.handle.got
        sent = msgspec.structs.replace(live.handle.sent, frames=plan.chunks * plan.frames)
        return check_frames(Observation(sent=[sent], delivered=[got]))

    def _confirm_releases(self) -> None:
        for index, mark in list(self._releasing.items()):
            if self.siege.drained(mark):
                del self._releasing[index]
                self._forgotten.append(index)

    def _call(self, verb: Callable[..., Any], *args: Any) -> Any:
        """Call a verb of the target; what it raises is news (it must not end the scheduler thread)."""
        try:
            return verb(*args)
        except Exception as error:
            name = getattr(verb, "__name__", "verb")
            self._raised.append(f"{self.options.name}.{name}: {type(error).__name__}: {error}")
            return None
