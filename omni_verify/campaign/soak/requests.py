"""The requests of a soak: started as planned, ended everywhere, released, and started again after a loss."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from omni_verify.campaign.soak.ledger import Entry
from omni_verify.campaign.soak.record import Checkpoint
from omni_verify.campaign.soak.system import Death
from omni_verify.harness.soak.messages import News, Over
from omni_verify.harness.soak.plan import Plan, plan_of
from omni_verify.verdict import Finding

if TYPE_CHECKING:
    from omni_verify.campaign.soak.load import Soak

__all__ = ["Requests"]

_POLL_S = 0.05


class _Leaving(msgspec.Struct, kw_only=True):
    """A request that is over, until every part has forgotten it; `again`: its id is then used again."""

    label: str
    again: bool
    confirmed: set[int] = set()


class Requests:
    """Plays the orchestrator: it knows external ids, tells stages what others reported, and frees ids.

    Args:
        soak: whose system, ledger and faults.
        before: checkpoint to go on from.

    Attributes:
        next: number of the first request that was not started.
        again: requests of an interrupted soak that start again.
    """

    def __init__(self, soak: Soak, before: Checkpoint | None) -> None:
        self._soak = soak
        self.next = before.next if before else 0
        self.again: deque[int] = deque(before.again if before else ())
        self._second: deque[int] = deque()
        self._leaving: dict[int, _Leaving] = {}

    @property
    def open(self) -> set[int]:
        """Requests that were started and are not over, second generations that still wait included."""
        reused = {index for index, leaving in self._leaving.items() if leaving.again}
        return {*self._soak.ledger.flying, *self._second, *reused}

    def submit(self) -> None:
        """Start what the concurrency and the rate let through, if every stage is up."""
        if not self._soak.faults.is_up():
            return
        room = self._soak.options.concurrency - len(self._soak.ledger.flying)
        plans: list[Plan] = []
        while self._second and len(plans) < room:
            plans.append(self._plan(self._second.popleft(), generation=2))
        if self._soak.options.rate:
            owed = int(self._soak.load_s * self._soak.options.rate) - self.next
            room = min(room, max(0, owed) + len(plans))
        while len(plans) < room:
            if self.again:
                index = self.again.popleft()
            elif self._soak.options.requests and self.next >= self._soak.options.requests:
                break
            else:
                index, self.next = self.next, self.next + 1
            plans.append(self._plan(index))
        if plans:
            for plan in plans:
                self._soak.ledger.submit(plan)
            self._soak.system.submit(plans)

    def _plan(self, index: int, generation: int = 1) -> Plan:
        plan = plan_of(self._soak.options.seed, index, self._soak.mix, leavers=self._soak.phase != "control")
        return msgspec.structs.replace(plan, generation=generation, submitted=time.monotonic())

    def news(self, part: int, news: News) -> None:
        """Take what a part reports of requests."""
        ledger = self._soak.ledger
        for strike in news.strikes:
            ledger.strike(strike)
        for text in news.raised:
            ledger.raised(text)
        if news.left:
            self._soak.system.abort(news.left, [p for p in self._soak.system.parts if p != part])
        for over in news.over:
            entry = ledger.over(part, over)
            if over.status == "failed":
                self._end([over.index])
            if entry is not None:
                self._close(entry)
        for index in news.forgotten:
            self._forgotten(index, part)

    def _close(self, entry: Entry) -> None:
        """Take leave of a request that is over everywhere; what lies unread of it is released.

        Not where its client left and nothing failed: then the aborts themselves must have cleaned up (I31).
        """
        index = entry.plan.index
        self._leaving[index] = _Leaving(again=self._soak.ledger.close(entry), label=entry.plan.label)
        self._soak.system.forget([index], release=bool(entry.told) or not entry.plan.aborts)
        for part in self._soak.system.parts:
            if self._soak.faults.is_down(part):
                self._lose(index, part)

    def _lose(self, index: int, part: int) -> None:
        """Note that a part which has ended confirms no release: what it owned is its parent's to remove."""
        self._soak.ledger.excused.add(self._leaving[index].label)
        self._forgotten(index, part)

    def _forgotten(self, index: int, part: int) -> None:
        leaving = self._leaving.get(index)
        if leaving is None:
            return
        leaving.confirmed.add(part)
        if len(leaving.confirmed) == len(self._soak.system.parts):
            del self._leaving[index]
            self._soak.ledger.settle(index)
            if leaving.again:
                self._second.append(index)

    def _end(self, indices: list[int]) -> None:
        """Tell every part to end requests that failed somewhere, as an orchestrator does."""
        now = time.monotonic()
        told = [i for i in indices if i in self._soak.ledger.flying and not self._soak.ledger.flying[i].told]
        for index in told:
            self._soak.ledger.flying[index].told = now
        if told:
            self._soak.system.abort(told, self._soak.system.parts, at_once=True)

    def give_up(self) -> None:
        """End requests that hang; silence is a finding, and so is a stage that does not let go of one."""
        entries = self._soak.ledger.hanging(self._soak.options.request_s)
        fresh = [e for e in entries if not e.told]
        for entry in fresh:
            self._soak.ledger.hangs(entry)
        self._end([e.plan.index for e in fresh])
        for entry in entries:
            if entry not in fresh:  # it was told, and a part still does not answer
                self._soak.stages.add(
                    Finding(
                        invariant="I37b",
                        message="a stage does not end a request that was aborted",
                        expected="every stage lets go of it",
                        found=f"answers from {sorted(entry.over)} only",
                        key="abort-ignored",
                    ),
                    entry.plan.label,
                )
                self._close(entry)

    def died(self, death: Death) -> None:
        """A part has ended: what it held is lost; what it was is a finding, unless a nemesis killed it."""
        self._soak.ledger.counts.deaths += 1
        if death.stage < 0:  # not a stage: what all of them hang on
            self._soak.lost = death.log
        wanted = self._soak.faults.died(death)
        if not wanted:
            self._soak.stages.add(
                Finding(
                    invariant="I37b",
                    message=_told(death),
                    expected="it lives as long as the soak",
                    found=death.how if death.stage >= 0 else death.log,
                    key=f"crash/stage{death.stage}",
                    evidence={
                        "code": death.code,
                        "log": death.log[-3000:],
                        "requests": self._soak.ledger.counts.started,
                        "seconds": round(self._soak.elapsed_s, 1),
                    },
                ),
                f"pid {death.pid}: {death.how}",
            )
        self._soak.ledger.excuse_all()
        for entry in self._soak.ledger.flying.values():
            entry.over.setdefault(death.stage, _lost(entry, death))
        indices = list(self._soak.ledger.flying)
        self._end(indices)
        for entry in list(self._soak.ledger.flying.values()):
            if len(entry.over) == len(self._soak.system.parts):
                self._close(entry)
        for index in list(self._leaving):
            self._lose(index, death.stage)
        if not self._soak.ended:
            self._soak.faults.restart(death.stage)
            self._soak.ledger.counts.restarts += 1

    def drain(self, bound_s: float) -> bool:
        """Wait until no request is in flight, second generations included; False at the bound."""
        end = time.monotonic() + bound_s
        soak = self._soak
        while soak.ledger.flying or self._leaving or self._second or not soak.faults.is_up():
            if time.monotonic() > end or soak.lost:
                return False
            if self._second:
                self._submit_second()
            soak.pump(_POLL_S)
        return True

    def _submit_second(self) -> None:
        if not self._soak.faults.is_up():
            return
        plans = [self._plan(self._second.popleft(), generation=2) for _ in range(len(self._second))]
        for plan in plans:
            self._soak.ledger.submit(plan)
        self._soak.system.submit(plans)


def _told(death: Death) -> str:
    if death.stage < 0:
        return death.log
    return f"the process of stage{death.stage} {'was ' if death.code < 0 else ''}{death.how}"


def _lost(entry: Entry, death: Death) -> Over:
    """What a part that has ended says of a request: it failed."""
    return Over(
        index=entry.plan.index,
        generation=entry.plan.generation,
        status="failed",
        error=f"stage{death.stage} was {death.how}",
    )
