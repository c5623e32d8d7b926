"""The `s` of a scenario: actors, stages, orders, faults, expectations."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from omni_verify.audit import shm, state
from omni_verify.checks.observation import Broken, Leftover, Observation
from omni_verify.contracts.keys import lock_name
from omni_verify.engine.gates import Gatekeeper
from omni_verify.engine.instrument import Patcher
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.peers import Peer
from omni_verify.engine.points import PointRef
from omni_verify.engine.runtime import Runtime
from omni_verify.errors import UsageError
from omni_verify.faults.nemesis import Fault, Injected, Nemesis
from omni_verify.harness import dye
from omni_verify.harness.instrumentation import instrument_adapter, instrument_connector, instrument_modules
from omni_verify.harness.peer_run import absorb, run_peer
from omni_verify.harness.stage import Handle, Stage
from omni_verify.harness.third_party import StoreConnector
from omni_verify.settings import Settings
from omni_verify.targets import points
from omni_verify.targets.protocol import Target

__all__ = ["Script"]

_ENQUEUES = (
    "save.exit",
    "send.exit",
    "abort.exit",
    "release.exit",
    "cleanup_all.exit",
    "cleanup_sender.exit",
)
_SETTLED_POLLS = 3
_POLLS = 10_000
_PER_REQUEST = frozenset(
    ["_pending_keys", "put_req_chunk", "get_req_chunk", "ramp_chunk_count", "requests_num_chunks_sent", "code_prompt_token_ids", "request_payload", "_sender_tokens", "_registered_load_entries", "request_ids_mapping", "_finished_load_reqs", "requests_with_ready_chunks", "_waiting_since", "requests_origin_status", "upstream_exhausted_requests", "segment_finished_requests", "_cancelled_load_reqs", "_segment_generation"]
)


class Script:
    """What one run of a scenario works with.

    Attributes:
        target: the system under test, loaded.
        runtime: who runs next.
        order: the declared partial order.
        coarse: reach only the points that the waits need: for long runs without an order.
        prefix: put before every external id, so that the audit sees only this run.
        faults: planned faults.
        seen: the observation that grows during the run.
    """

    def __init__(
        self,
        target: Target,
        runtime: Runtime,
        order: PartialOrder,
        prefix: str = "",
        *,
        settings: Settings | None = None,
        coarse: bool = False,
    ) -> None:
        self.target, self.runtime, self.order, self.prefix = target, runtime, order, prefix
        self.settings, self.coarse = settings or Settings(), coarse
        self.faults = Nemesis(runtime.reach, prefix)
        self.patcher = Patcher(runtime, self.faults)
        self.seen = Observation()
        self.broken: list[Broken] = []
        self.required: list[PointRef] = []
        self.checked = 0
        self.stages: list[Stage] = []
        self.connectors: list[Any] = []
        self.peers: list[Peer] = []
        self._numbers: dict[str, int] = {}
        self._settling: set[str] = set()
        self._forbidden: dict[str, str] = {}
        self.natural_release = True
        self.audit_quiet = True
        instrument_modules(self)

    # -- names --------------------------------------------------------------------------------

    def external(self, label: str) -> str:
        """External id of a label: the run's prefix and the label."""
        return f"{self.prefix}{label}"

    def key(self, label: str, stage: int, chunk: int) -> str:
        """Transfer key of a chunk as the target builds it."""
        return f"{self.external(label)}_{stage}_{chunk}"

    def number(self, label: str) -> int:
        """Stream number of a label, for the dye."""
        return self._numbers.setdefault(label, dye.stream_number(label))

    def label_of(self, number: int) -> str:
        """Label of a stream number; a number that was never given out is shown as such."""
        return next((label for label, n in self._numbers.items() if n == number), f"unknown stream {number}")

    # -- parts --------------------------------------------------------------------------------

    def stage(self, stage_id: int, name: str = "", *, chunk: int = 0, **adapter_args: Any) -> Stage:
        """Build a stage: the target's adapter with its connector, threads and queues.

        Args:
            stage_id: 0 receives nothing; stage k receives from k-1 and sends to k+1.
            name: label in traces; ``stage<k>`` when empty.
            chunk: frames that the processor gathers for one chunk, 0 for one chunk a save.
            adapter_args: as `Target.create_adapter`.
        """
        name = name or f"stage{stage_id}"
        if self.prefix:
            adapter_args["extra"] = {"wakeup_scope": self.prefix, **adapter_args.get("extra", {})}
        adapter_args.setdefault("receives", stage_id > 0)
        stage = Stage(self, stage_id, name, chunk=chunk, **adapter_args)
        self.stages.append(stage)
        instrument_adapter(self, stage)
        return stage

    def producer(self, **args: Any) -> Stage:
        """Build the sending stage of a two-stage scenario: stage 1 (Talker), which receives nothing here."""
        return self.stage(1, "producer", receives=False, **args)

    def consumer(self, **args: Any) -> Stage:
        """Build the receiving stage of a two-stage scenario: stage 2 (Code2Wav)."""
        return self.stage(2, "consumer", **args)

    def pair(self, *, chunk: int = 0, worker_type: str = "generation") -> tuple[Stage, Stage]:
        """Build a producer and a consumer."""
        return self.producer(chunk=chunk), self.consumer(worker_type=worker_type)

    def register_third_party(self, name: str) -> StoreConnector:
        """Register a connector of another class with the target's factory; return its one instance."""
        store = StoreConnector({}, self.target.serialize, self.target.deserialize)

        def build(config: dict[str, Any]) -> StoreConnector:
            store.config, store.stage_id = config, config.get("stage_id", -1)
            return store

        self.target.register_connector(name, build)
        return store

    def connector(self, stage_id: int = 0, **extra: Any) -> Any:
        """Build a connector alone, instrumented."""
        if self.prefix:
            extra.setdefault("wakeup_scope", self.prefix)
        connector = self.target.create_connector(stage_id, extra or None)
        self.connectors.append(connector)
        instrument_connector(self, connector)
        return connector

    def payload(self, label: str = "R", frames: int = 4, *, generation: int = 1, first: int = 0) -> Any:
        """Build a producer-side payload with dyed frames of a label."""
        import torch

        rows = dye.paint(self.number(label), generation, first, frames)
        return self.target.payload(
            codes=torch.tensor(dye.flatten(rows), dtype=torch.int64), left_context_size=0
        )

    def frames(self, received: Any) -> list[tuple[str, int, int]]:
        """Read (label, generation, index) of the frames in what `get` returned; None reads as no frame."""
        if received is None:
            return []
        codes = received[0]["codes"]["audio"]
        frames, broken = dye.read([int(c) for c in codes])
        if broken:
            self.broken.append(
                Broken(
                    family=("I18", "I12"),
                    message="a payload arrived with other content",
                    found="; ".join(broken),
                )
            )
        return [(self.label_of(f.stream), f.generation, f.index) for f in frames]

    # -- program ------------------------------------------------------------------------------

    def actor(self, name: str, body: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Declare an actor; it starts with `run`."""
        self.runtime.spawn(name, lambda: body(*args, **kwargs))

    def run_order(self, *chains: str, blocked: str = "") -> None:
        """Declare orders (see `order`) and run the actors."""
        self.declare(*chains, blocked=blocked)
        self.run()

    def declare(self, *chains: str, blocked: str = "") -> None:
        """Declare chains ``"a < b < c"`` over points.

        Args:
            chains: partial order; see `engine.points` for the references.
            blocked: invariant that is broken when an actor is found inside a target's verb at the
                moment when the order turned out to be unsatisfiable (``"I29"``: abort waits for I/O).
        """
        self.order.add(*chains)
        for chain in chains:
            if blocked:
                self._forbidden[chain] = blocked

    def require(self, *points: str) -> None:
        """Name points that the trace must contain for the case to be held."""
        self.required += [PointRef.parse(p) for p in points]

    def run(self) -> None:
        """Start the declared actors and wait until all have ended."""
        self.runtime.run()

    def until(self, predicate: Callable[[], bool], what: str) -> None:
        """Wait until `predicate()` is true; it must only read."""
        self.runtime.until(predicate, what)

    def seen_point(self, text: str) -> bool:
        """Tell whether a point reference is in the trace."""
        return PointRef.parse(text).find(self.runtime.trace) is not None

    def await_point(self, text: str) -> None:
        """Wait until a point reference is in the trace."""
        self.until(lambda: self.seen_point(text), text)

    def mark(self, name: str) -> None:
        """Record a moment of this scenario, for orders."""
        self.runtime.reach("mark", name)

    def get(self, connector: Any, key: str) -> Any:
        """Poll a key that was put until it arrives: a get may say "not yet" while somebody holds the lock."""
        for _ in range(_POLLS):
            result = connector.get("1", "2", key)
            if result is not None:
                return result
            seen = len(self.runtime.trace)
            self.until(
                lambda seen=seen: len(self.runtime.trace) > seen, f"an event after a vain get of {key}"
            )  # type: ignore[misc]
        return None

    def attempt(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call and return the result, or the exception as a value."""
        try:
            return call(*args)
        except Exception as error:
            return error

    def idle_rounds(self, stage: Stage, rounds: int) -> None:
        """Wait until the save thread of a stage has gone idle `rounds` more times: time that no clock measures."""
        since = len(self.runtime.trace)

        def idled() -> bool:
            return (
                sum(e.point == "idle.save" and e.key == stage.name for e in self.runtime.trace.events[since:])
                >= rounds
            )

        self.until(idled, f"{stage.name} idles {rounds} rounds")

    def has_point(self, operation: str) -> bool:
        """Tell whether the target reaches an operation in its modules at all."""
        return any(site.point == operation for site in points.module_points(self.target))

    def lock_path(self, key: str) -> str:
        """Path of the lock file of a transfer key."""
        return f"/dev/shm/{lock_name(key)}"

    @contextlib.contextmanager
    def full_of_files(self) -> Iterator[None]:
        """Use up every free inode of the private /dev/shm, and give them back at the end."""
        made: list[str] = []
        try:
            with contextlib.suppress(OSError):
                for i in range(100_000):
                    path = f"/dev/shm/{self.prefix}filler{i}"
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
                    made.append(path)
            yield
        finally:
            for path in made:
                os.unlink(path)

    # -- faults -------------------------------------------------------------------------------

    def fault(
        self,
        point: str,
        key: str = "*",
        *,
        times: Iterable[int] = (1,),
        after: bool = False,
        error: BaseException | None = None,
        value: Callable[[Any], Any] | None = None,
        note: str = "",
    ) -> Fault:
        """Plan a fault at an operation; see `faults.nemesis.Fault`."""
        return self.faults.add(
            Fault(point=point, key=key, times=tuple(times), after=after, error=error, value=value, note=note)
        )

    def pause(
        self, point: str, key: str = "*", *, until: Callable[[], bool], what: str, times: Iterable[int] = (1,)
    ) -> None:
        """Hold the actor that is about to do an operation until `until()` is true; it must only read.

        For windows whose end depends on how the target protects itself (it blocks the other side, or
        lets it through); an order says the rest. Explored runs ignore it, as they ignore orders.
        """
        self.faults.hold(point, key, tuple(times), lambda: self.until(until, what))

    def after(self, point: str, key: str = "*", *, until: Callable[[], bool], what: str) -> None:
        """Hold the actor right after it did an operation until `until()` is true; as `pause`."""
        self.faults.hold(point, key, (1,), lambda: self.until(until, what), after=True)

    def fail_put(
        self, key: str = "*", *, times: Iterable[int] = (1,), created: bool = False, raises: bool = False
    ) -> Fault:
        """Make a put fail: by False or by an exception, before or after the object exists."""
        return self.fault(
            "put",
            key,
            times=times,
            after=created,
            error=Injected("injected: the put failed") if raises else None,
            value=None if raises else lambda _result: (False, 0, None),
            note=f"put {'raises' if raises else 'returns False'}{' after it created the object' if created else ''}",
        )

    # -- judgement ----------------------------------------------------------------------------

    def expect(
        self,
        invariant: str,
        ok: object,
        message: str,
        *,
        expected: str = "",
        found: object = "",
        key: str = "",
    ) -> bool:
        """Judge one observation that is special to this scenario; return whether it was as expected."""
        self.checked += 1
        if not ok:
            self.broken.append(
                Broken(family=(invariant,), message=message, expected=expected, found=str(found), key=key)
            )
        return bool(ok)

    def shm(self) -> list[str]:
        """Names of segments and lock files of this run that exist now, without the prefix."""
        return self._names(("segment", "lock"))

    def everything(self) -> list[str]:
        """Names of whatever this run may have made, odd names included; wake directories are left out."""
        return sorted(
            n for n in os.listdir("/dev/shm") if self.prefix in n and not n.startswith("omni_shm_wake_")
        )

    def _names(self, kinds: tuple[str, ...]) -> list[str]:
        entries = shm.scan(self.prefix).entries
        return sorted(e.name.replace(self.prefix, "", 1) for e in entries if e.kind in kinds)

    def sizes(self, stage: Stage) -> dict[str, int]:
        """Length of every container of a stage's adapter and connector, by path."""
        return state.container_sizes({stage.name: stage.adapter})

    def expect_no_residue(self, invariant: str, when: str) -> None:
        """Judge that nothing of this run is left now."""
        left = self.shm()
        self.expect(
            invariant,
            not left,
            f"{when} leaves objects behind",
            expected="nothing under /dev/shm",
            found=", ".join(left),
            key=left[0] if left else "",
        )

    # -- processes ----------------------------------------------------------------------------

    def process(self, name: str, body: Callable[[Script], object], *, own_clock: bool = False) -> Peer:
        """Fork a peer that runs `body(script)` with a script of its own; call it before any stage is built.

        Args:
            name: actor name of the peer; its threads are ``<name>.<stage>.save`` and so on.
            body: the program of the peer.
            own_clock: keep its events to itself instead of passing this process's gates with each: for
                long runs without an order between the processes.
        """
        peer = Peer(name, self._keeper(), lambda pipe: run_peer(self, name, body, pipe, own_clock=own_clock))
        self.peers.append(peer)
        return peer

    def start_processes(self) -> None:
        """Let the forked peers begin."""
        for peer in self.peers:
            peer.start()

    def join_processes(self, bound_factor: float = 1.0) -> None:
        """Wait until every peer has ended; what it observed joins this script's observation."""
        for peer in self.peers:
            bound = self.settings.wait_s * bound_factor
            self.runtime.until(peer.ended, f"{peer.name} ends", bound)
            absorb(self, peer)

    def _keeper(self) -> Gatekeeper:
        keeper = getattr(self.runtime, "keeper", None)
        if keeper is None:
            raise UsageError(
                "a scenario with processes runs under its scripted order only, not under exploration."
            )
        return keeper  # type: ignore[no-any-return]

    # -- quiescence ---------------------------------------------------------------------------

    def drained(self, stage: Stage) -> bool:
        """Tell whether a stage's save thread has done everything that was queued (read only)."""
        if stage.adapter._pending_save_reqs:
            return False
        if not stage.adapter.save_thread.is_alive():
            return True
        for event in reversed(self.runtime.trace.events):
            if event.point == "idle.save" and event.key == stage.name:
                return True
            if event.point in _ENQUEUES:
                return False
        return False

    def drain(self, *stages: Stage) -> None:
        """Wait until the save threads have done everything that was queued."""
        for stage in stages or tuple(self.stages):
            self.until(functools.partial(self.drained, stage), f"{stage.name} drains its save queue")
            stage.collect()

    def polled(self, stage: Stage, label: str, since: int, times: int = _SETTLED_POLLS) -> bool:
        """Tell whether a request was polled in vain `times` times after the event `since` (read only)."""
        prefix = f"{label}_{stage.stage_id - 1}_"
        count = 0
        for event in self.runtime.trace.events[since:]:
            count += (
                event.point == "get.exit" and event.key.startswith(prefix) and not event.detail.get("found")
            )
        return count >= times

    def polls(self, stage: Stage, label: str) -> None:
        """Wait until a registered request has got a chunk, or was polled in vain a few more times."""
        since, handle = len(self.runtime.trace), stage.handle(label)
        self.until(
            lambda: stage.ready(handle) or self.polled(stage, label, since), f"{stage.name} polls {label}"
        )

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

    def wait_ready(self, stage: Stage, handles: list[Handle]) -> bool:
        """Wait until a tick would make progress on one of the requests."""
        self.until(lambda: any(stage.ready(h) for h in handles), f"{stage.name} gets a chunk")
        return True

    def wait_arrival(self, stage: Stage, handles: list[Handle], mark: int) -> bool:
        """Wait until a tick would make progress, or until nothing more can arrive (then False).

        Nothing more can arrive when every other actor has ended or waits here too, every save queue
        is drained, and each request was then polled in vain `_SETTLED_POLLS` more times.
        """
        me = f"{stage.name}:{mark}"
        self._settling.add(me)
        try:
            self.until(
                lambda: (
                    any(stage.ready(h) for h in handles)
                    or (self._others_done() and all(map(self.drained, self.stages)))
                ),
                f"{stage.name} gets a chunk, or every producer is drained",
            )
            since = len(self.runtime.trace)
            self.until(
                lambda: (
                    any(stage.ready(h) for h in handles)
                    or all(self.polled(stage, h.label, since) for h in handles)
                ),
                f"{stage.name} has polled again",
            )
            return any(stage.ready(h) for h in handles)
        finally:
            self._settling.discard(me)

    def _others_done(self) -> bool:
        unfinished = [a for a in self.runtime.actors if a not in self.runtime.finished]
        return len(unfinished) <= len(self._settling)

    # -- epilogue -----------------------------------------------------------------------------

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
            self._let_reap(stage)
        self._observe()
        if self.audit_quiet:
            self.seen.quiet = self.shm()

    def quiesce_peer(self) -> None:
        """Bring the stages of a peer to rest; what lies in shared memory is for the parent to audit."""
        self.drain()
        self._observe()

    def _let_reap(self, stage: Stage) -> None:
        """Give the save thread the rounds in which it must have found every consumed key (I23)."""
        pending = getattr(stage.connector, "_pending_keys", ())
        if not self.target.capabilities.reap or not pending or not stage.adapter.save_thread.is_alive():
            return
        since, rounds = len(self.runtime.trace), 2 + len(pending) // 64

        def reaped() -> bool:
            events = self.runtime.trace.events[since:]
            return (
                not pending
                or sum(e.point == "reap.exit" and e.actor.endswith(f"{stage.name}.save") for e in events)
                >= rounds
            )

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
        self.seen.closed = self._names(("segment", "lock", "fifo", "owner", "wake"))

    def finish_bystander(self, producer: Stage, consumer: Stage, label: str) -> None:
        """End a request that only kept a save thread busy, and have it consumed: it leaves nothing to judge."""
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
            for entry in state.find_entries({stage.name: stage.adapter}, over - live, known=live):
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
