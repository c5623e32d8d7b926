"""Rest: when a target has nothing left to do, and what is then left behind.

Nothing here sleeps. A save queue is drained when the save thread has gone idle after the last verb
that could fill it; a request is settled when it was polled in vain after that. Both are read off the
trace, so they hold on real threads and under the controlled scheduler alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from omni_verify.audit import state
from omni_verify.checks.observation import Leftover, Observation
from omni_verify.engine.control import clock
from omni_verify.engine.control.state import unobserved
from omni_verify.engine.peers import Peer
from omni_verify.engine.runtime import Runtime
from omni_verify.faults.nemeses import Roaming
from omni_verify.targets.protocol import Target

if TYPE_CHECKING:
    from omni_verify.harness.handle import Handle
    from omni_verify.harness.stage import Stage

__all__ = ["Rest"]

_ENQUEUES = frozenset(
    f"{verb}.exit" for verb in ("save", "send", "abort", "release", "cleanup_all", "cleanup_sender")
)
_SETTLED_POLLS = 3
_SLICES = 32
"""More idle events than two waits of a receive thread are told as: the reference's longest is 13."""
_PATIENCE_S = 0.02
_PER_REQUEST = frozenset(
    {
        "_pending_keys",
        "put_req_chunk",
        "get_req_chunk",
        "ramp_chunk_count",
        "requests_num_chunks_sent",
        "code_prompt_token_ids",
        "request_payload",
        "_sender_tokens",
        "_segment_generation",
        "_registered_load_entries",
        "request_ids_mapping",
        "_finished_load_reqs",
        "requests_with_ready_chunks",
        "_waiting_since",
        "requests_origin_status",
        "upstream_exhausted_requests",
        "segment_finished_requests",
        "_cancelled_load_reqs",
    }
)


class Rest:
    """Waits for rest, and the audits of the resting system."""

    runtime: Runtime
    target: Target
    seen: Observation
    stages: list[Stage]
    connectors: list[Any]
    peers: list[Peer]
    prefix: str
    siege: Roaming | None
    explored: bool
    natural_release: bool
    audit_quiet: bool
    _settling: set[str]
    _forbidden: dict[str, str]
    external: Callable[[str], str]
    expect: Callable[..., bool]
    shm: Callable[[], list[str]]
    _names: Callable[[tuple[str, ...]], list[str]]

    def until(self, predicate: Callable[[], bool], what: str) -> None:
        """Wait until `predicate()` is true; it must only read."""
        self.runtime.until(predicate, what)

    def idle_rounds(self, stage: Stage, rounds: int) -> None:
        """Wait until a stage's save thread has gone idle `rounds` more times: time that no clock measures."""
        since = len(self.runtime.trace)

        def idled() -> bool:
            return sum(1 for _ in self.runtime.trace.since("idle.save", since, stage.name)) >= rounds

        self.until(idled, f"{stage.name} idles {rounds} rounds")

    def drained(self, stage: Stage) -> bool:
        """Tell whether a stage's save thread has done everything that was queued (read only)."""
        if stage.adapter._pending_save_reqs:
            return False
        if not stage.adapter.save_thread.is_alive():
            return True
        trace = self.runtime.trace
        idle = trace.last("idle.save", stage.name)
        return idle is not None and all(e is None or e.seq < idle.seq for e in map(trace.last, _ENQUEUES))

    def drain(self, *stages: Stage) -> None:
        """Wait until the save threads have done everything that was queued."""
        for stage in stages or tuple(self.stages):
            self.until(functools.partial(self.drained, stage), f"{stage.name} drains its save queue")
            stage.collect()

    def polled(self, stage: Stage, label: str, since: int, times: int = _SETTLED_POLLS) -> bool:
        """Tell whether a request was polled in vain `times` times after the event `since` (read only)."""
        prefix = f"{label}_{stage.stage_id - 1}_"
        vain = (e for e in self.runtime.trace.since("get.exit", since) if not e.detail.get("found"))
        return sum(e.key.startswith(prefix) for e in vain) >= times

    def polls(self, stage: Stage, label: str) -> None:
        """Wait until a registered request has got a chunk, or was polled in vain a few more times."""
        since, handle = len(self.runtime.trace), stage.handle(label)
        self.until(
            lambda: stage.ready(handle) or self.polled(stage, label, since), f"{stage.name} polls {label}"
        )

    def wait_ready(self, stage: Stage, handles: list[Handle]) -> bool:
        """Wait until a tick would make progress on one of the requests."""
        self.until(lambda: any(stage.ready(h) for h in handles), f"{stage.name} gets a chunk")
        return True

    def wait_arrival(self, stage: Stage, handles: list[Handle], mark: int) -> bool:
        """Wait for progress or the end of a request; False when nothing more can arrive.

        Nothing more can arrive when every other actor has ended or waits here too, every save queue
        is drained, and each request was then polled in vain `_SETTLED_POLLS` more times. Where a nemesis has
        struck, a sender that could not even say that it failed gets the time to try again.
        """
        moved = self._wait_arrival(stage, handles, mark)
        if not moved and self.siege is not None and self.siege.struck:
            self._let_retry(len(self.siege.struck))
            moved = self._wait_arrival(stage, handles, len(self.runtime.trace))
        return moved

    def _let_retry(self, strikes: int) -> None:
        """Let pass what a sender waits before it tries again: idle rounds, or time where time is modelled."""
        if self.explored:
            clock.sleep(_PATIENCE_S)
            return
        for stage in self.stages:
            since, thread = len(self.runtime.trace), stage.adapter.save_thread

            def idled(name: str = stage.name, since: int = since, thread: Any = thread) -> bool:
                rounds = sum(1 for _ in self.runtime.trace.since("idle.save", since, name))
                return rounds >= 2 + strikes or not thread.is_alive()

            self.until(idled, f"{stage.name} has tried again")

    def _wait_arrival(self, stage: Stage, handles: list[Handle], mark: int) -> bool:
        me = f"{stage.name}:{mark}"

        def moves() -> bool:
            return any(h.over or stage.ready(h) for h in handles)

        self._settling.add(me)
        try:
            self.until(
                lambda: moves() or (self._others_done(stage) and all(map(self.drained, self.stages))),
                f"{stage.name} gets a chunk, or every producer is drained",
            )
            since = len(self.runtime.trace)
            self.until(
                lambda: (
                    moves()
                    or all(self.polled(stage, h.label, since) for h in handles)
                    or self._polls_no_more(stage, since)
                ),
                f"{stage.name} has polled again",
            )
            return moves()
        finally:
            self._settling.discard(me)

    def wait_pass(self, stage: Stage) -> bool:
        """Wait for one more pass of a stage's receive thread; tell whether all had arrived before it."""
        me, since, thread = f"{stage.name}:pass", len(self.runtime.trace), stage.adapter.recv_thread
        self._settling.add(me)
        try:
            quiet = self._others_done(stage) and all(map(self.drained, self.stages))

            def passed() -> bool:
                idle = self.runtime.trace.since("idle.recv", since, stage.name)
                nothing = not stage.adapter._pending_load_reqs or not thread.is_alive()
                return nothing or any(True for _ in idle)

            self.until(passed, f"{stage.name} looks for chunks once more")
            return quiet
        finally:
            self._settling.discard(me)

    def _polls_no_more(self, stage: Stage, since: int) -> bool:
        """Tell whether the receive thread went round often enough to poll whatever is registered."""
        rounds = sum(1 for _ in self.runtime.trace.since("idle.recv", since, stage.name))
        return rounds >= 4 * _SETTLED_POLLS

    def reads(self, stage: Stage) -> bool:
        """Tell whether an actor waits for chunks at a stage now."""
        return any(who.startswith(f"{stage.name}:") for who in self._settling)

    def _others_done(self, stage: Stage) -> bool:
        unfinished = [a for a in self.runtime.actors if a not in self.runtime.finished]
        return len(unfinished) <= len(self._settling)

    def quiesce(self) -> None:
        """Bring every stage to rest, end what ended naturally, and take the audit of the quiet point."""
        self.drain()
        for stage in self.stages:
            if any(not h.over for h in stage.handles) and stage.adapter.receives_chunks:
                stage.consume()
        self.drain()
        if self.natural_release:
            for stage in self.stages:
                for handle in stage.handles:
                    if handle.over and not (handle.sent.aborted or handle.got.aborted):
                        stage.release(handle)
        self.drain()
        for stage in self.stages:
            self.let_reap(stage)
            self.let_forget(stage)
        self._observe()
        if self.audit_quiet:
            self.seen.quiet = self.shm()

    def quiesce_peer(self) -> None:
        """Bring the stages of a peer to rest; what lies in shared memory is for the parent to audit."""
        self.drain()
        for stage in self.stages:
            self.let_reap(stage)
        self._observe()

    def let_forget(self, stage: Stage) -> None:
        """Give the receive thread the passes in which it must have dropped what is registered no more (I39).

        One pass may have looked at an entry just before that was cleaned up, and one long wait may be told as
        several: it is waited for in slices.
        """
        thread, since = stage.adapter.recv_thread, len(self.runtime.trace)
        if not stage.adapter.receives_chunks or not getattr(stage.adapter, "_pending_load_reqs", ()):
            return

        def went_round() -> bool:
            idle = sum(1 for _ in self.runtime.trace.since("idle.recv", since, stage.name))
            nothing = idle > 0 and not stage.adapter._pending_load_reqs
            return nothing or idle >= _SLICES or not thread.is_alive()

        self.until(went_round, f"{stage.name} looks at its registrations twice")

    def let_reap(self, stage: Stage) -> None:
        """Give the save thread the rounds in which it must have found every consumed key (I23)."""
        pending = getattr(stage.connector, "_pending_keys", ())
        if not self.target.capabilities.reap or not pending or not stage.adapter.save_thread.is_alive():
            return
        since, rounds = len(self.runtime.trace), 2 + len(pending) // 64

        def reaped() -> bool:
            scans = self.runtime.trace.since("reap.exit", since)
            return not pending or sum(e.actor.endswith(f"{stage.name}.save") for e in scans) >= rounds

        self.until(reaped, f"{stage.name} scans its pending keys {rounds} times")

    def _observe(self) -> None:
        for stage in self.stages:
            self.seen.sent += [h.sent for h in stage.handles]
            self.seen.delivered += [h.got for h in stage.handles if stage.adapter.receives_chunks]
        if self.audit_quiet:
            self.seen.leftovers = [*(self.seen.leftovers or []), *self._leftovers()]
        self.seen.dead_threads = [
            *(self.seen.dead_threads or []),
            *(
                t.name
                for stage in self.stages
                for t in (stage.adapter.save_thread, stage.adapter.recv_thread)
                if self.audit_quiet and not t.is_alive()
            ),
        ]

    def shutdown(self) -> None:
        """Shut every adapter down, close every connector, and take the last audit."""
        for peer in self.peers:
            if not peer.ended():
                peer.kill()
        for stage in self.stages:
            stage.adapter.shutdown()
        for stage in self.stages:
            for thread in (stage.adapter.save_thread, stage.adapter.recv_thread):
                thread.join(5.0)
        for connector in self.connectors:
            connector.close()
        self.seen.closed = self._names(("segment", "lock", "fifo", "owner", "spare", "wake"))

    def finish_bystander(self, producer: Stage, consumer: Stage, label: str) -> None:
        """End and consume a request that only kept a save thread busy: it leaves nothing to judge."""
        producer.end(label)
        consumer.admit(label)
        consumer.consume(label)

    def leftovers(self, label: str, *stages: Stage) -> list[Leftover]:
        """Entries of one request in the containers of the stages, now."""
        external = self.external(label)
        return [
            x
            for x in self._leftovers(stages, everything=True)
            if f"(of {label})" in x.entry or x.entry in (label, external)
        ]

    def _leftovers(self, stages: Iterable[Stage] = (), *, everything: bool = False) -> list[Leftover]:
        found = []
        for stage in stages or self.stages:
            over = {i for h in stage.handles if h.over for i in (h.internal, h.external)}
            live = {
                i for h in stage.handles if not h.over and not everything for i in (h.internal, h.external)
            }
            over |= {i for h in stage.handles if everything for i in (h.internal, h.external)}
            with unobserved():
                entries = state.find_entries({stage.name: stage.adapter}, over - live, known=live)
            for entry in entries:
                owner, _, container = entry.container.rpartition(".")
                text = f"{entry.item} (of {entry.request})" if entry.item != entry.request else entry.item
                found.append(Leftover(owner=owner, container=container, entry=text.replace(self.prefix, "")))
        return found

    def blocked_verbs(self) -> list[tuple[str, str]]:
        """Which actors were inside a target's verb when a declared order turned out unsatisfiable."""
        inside: dict[str, str] = getattr(self.runtime, "inside", {})
        return [
            (invariant, f"{actor} inside {operation}")
            for invariant in dict.fromkeys(self._forbidden.values())
            for actor, operation in inside.items()
            if operation
        ]

    def sizes(self, stage: Stage) -> dict[str, int]:
        """Length of every container of a stage's adapter and connector, by path."""
        with unobserved():
            return state.container_sizes({stage.name: stage.adapter})

    def expect_idle(self, stage: Stage) -> None:
        """Judge that a stage without live requests keeps no bookkeeping at all (I39, I23)."""
        kept = {n: c for n, c in self.sizes(stage).items() if c and n.split(".")[-1] in _PER_REQUEST}
        self.expect(
            "I39",
            not kept,
            f"an idle {stage.name} keeps bookkeeping",
            expected="empty containers",
            found=kept,
            key=stage.name,
        )
