"""The `s` of a scenario: actors, stages, orders, faults, expectations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from omni_verify.checks.observation import Broken, Observation
from omni_verify.engine.gates import Gatekeeper
from omni_verify.engine.instrument import Patcher
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.peers import Peer
from omni_verify.engine.points import PointRef
from omni_verify.engine.runtime import Runtime
from omni_verify.errors import UsageError
from omni_verify.faults.nemeses import Roaming
from omni_verify.faults.nemesis import Nemesis
from omni_verify.harness import dye
from omni_verify.harness.field import Field
from omni_verify.harness.instrumentation import instrument_adapter, instrument_connector, instrument_modules
from omni_verify.harness.peer_run import absorb, run_peer
from omni_verify.harness.planned_faults import PlannedFaults
from omni_verify.harness.rest import Rest
from omni_verify.harness.scenario import get
from omni_verify.harness.stage import Stage
from omni_verify.harness.third_party import StoreConnector
from omni_verify.settings import Settings
from omni_verify.targets import points
from omni_verify.targets.protocol import Target

__all__ = ["Script"]

_POLLS = 10_000
_BUILDERS: dict[str, Callable[[dict[str, Any]], StoreConnector]] = {}
"""What the factory builds under the name of a third-party connector: the store of the current run."""


class Script(Field, PlannedFaults, Rest):
    """What one run of a scenario works with.

    Attributes:
        target: the system under test, loaded.
        runtime: who runs next.
        order: the declared partial order.
        explored: a strategy chooses who runs next; orders and pauses are not enforced.
        paused: the scenario planned a pause that was left out for that reason.
        followed: another scenario's program runs under an order of its own (see `follow`).
        coarse: reach only the points that the waits need: for long runs without an order.
        prefix: put before every external id, so that the audit sees only this run.
        faults: planned faults.
        seen: the observation that grows during the run.
        errors: what the actors and the steps of the run raised.
        siege: nemeses that roam in this run, None without.
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
        explored: bool = False,
    ) -> None:
        self.target, self.runtime, self.order, self.prefix = target, runtime, order, prefix
        self.settings, self.coarse, self.explored = settings or Settings(), coarse, explored
        self.paused = self.followed = False
        self.faults = Nemesis(runtime.reach, prefix)
        self.patcher = Patcher(runtime, self.faults)
        self.seen = Observation()
        self.errors: dict[str, BaseException] = {}
        self.siege: Roaming | None = None
        self.broken: list[Broken] = []
        self.lasting: list[Broken] = []
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

    @property
    def free(self) -> bool:
        """Whether a strategy or a kept schedule decides who runs next, instead of the scenario."""
        return self.explored or self.followed

    def small(self, size: int, explored: int = 3) -> int:
        """How many of something a program makes: `size` on real threads, `explored` under a strategy.

        Schedules grow with the size and the races do not: nearly all show in a small scope.
        """
        return explored if self.free else size

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
        if self.siege is not None and stage.adapter.receives_chunks:
            self.siege.attach(stage.connector, self.patcher.replace)
        return stage

    def lay_siege(self, roaming: Roaming) -> Roaming:
        """Let nemeses roam from now on; return them."""
        self.siege = self.faults.roaming = roaming
        return roaming

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

        if name not in _BUILDERS:  # a factory takes a name once in a process, an explorer runs many times
            self.target.register_connector(name, lambda config: _BUILDERS[name](config))
        _BUILDERS[name] = build
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
        if self.followed:
            return
        self.order.add(*chains)
        for chain in chains:
            if blocked:
                self._forbidden[chain] = blocked

    def follow(self, scenario_id: str, *chains: str) -> None:
        """Run the program of another scenario under these chains: a schedule that exploration found.

        The orders, pauses and special expectations of that scenario belong together and are left out;
        the common checks judge.
        """
        self.declare(*chains)
        self.followed = True
        get(scenario_id).program(self)
        self.broken.clear()
        self.required.clear()

    def require(self, *points: str) -> None:
        """Name points that the trace must contain for the case to be held."""
        self.required += [PointRef.parse(p) for p in points]

    def run(self) -> None:
        """Start the declared actors and wait until all have ended."""
        self.runtime.run()

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
            self.until(
                functools.partial(self._moved, len(self.runtime.trace)), f"an event after a vain get of {key}"
            )
        return None

    def _moved(self, since: int) -> bool:
        return len(self.runtime.trace) > since

    def has_point(self, operation: str) -> bool:
        """Tell whether the target reaches an operation in its modules at all."""
        return any(site.point == operation for site in points.module_points(self.target))

    def attempt(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call and return the result, or the exception as a value."""
        try:
            return call(*args)
        except Exception as error:
            return error

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

    def expect_always(self, invariant: str, ok: object, message: str, **details: Any) -> bool:
        """Judge as `expect`, for what holds whatever the order: it counts in every explored execution."""
        before = len(self.broken)
        held = self.expect(invariant, ok, message, **details)
        self.lasting += self.broken[before:]
        return held

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
