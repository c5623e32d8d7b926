"""Plays a fuzzed program on a target, and judges it by the common checks and the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from omni_verify.checks import run_common
from omni_verify.checks.observation import Broken
from omni_verify.contracts.keys import key_of_lock_name
from omni_verify.engine.schedule import fingerprint
from omni_verify.faults.nemeses import Harm, NemesisSpec, Roaming, choose
from omni_verify.harness.explored import ContractViolation, Workload
from omni_verify.harness.fuzz_program import EAGER, LANES, RUSH, SESSION, VERBS, Op, Program
from omni_verify.harness.model import Stream, judge
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Handle, Stage
from omni_verify.harness.third_party import StoreConnector
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["JUDGED", "PREFIX", "FuzzRun", "FuzzWorkload", "identity_of"]

PREFIX = "fuzz:"
"""Names of fuzzed programs begin with it; the encoded program follows."""
_OTHER = "FuzzedStore"
_BY_ID = ("drain", "release", "retired", "shut down")
"""Words in the reasons for which an id is refused, as against a send that failed."""
_WHO = re.compile(r"(?:\S+ )?request \S+ \(generation \d+\)")
JUDGED = tuple(
    "I12 I13 I14 I18 I19 I20 I22 I23 I28 I30 I32 I33 I34 I36 I37b I38c I39 I46 I51 I53".split()  # noqa: SIM905
)
"""Invariants that every run judges, by the common checks and the model."""
_POLLS = 50
"""Idle moments of the receive thread within which it must have polled everything once."""
_SEVERITY = (Harm.NONE, Harm.STREAM, Harm.SILENT)
_Id = tuple[str, int]


_registered: set[str] = set()


class _Store(StoreConnector):
    """The other connector; it outlives the close of one end, so that what nobody reads shows."""

    shared: ClassVar[dict[str, bytes]] = {}

    def __init__(self, config: dict[str, Any], target: Target) -> None:
        super().__init__(config, target.serialize, target.deserialize)
        self.objects = _Store.shared

    def close(self) -> None:
        """Keep everything."""


class FuzzRun:
    """One run of a program on one script.

    Attributes:
        streams: the requests, by (external id, generation).
        roaming: the nemeses and what they struck.
        store: objects of the other connector, None when it is not used.
    """

    def __init__(self, script: Script, program: Program, specs: list[NemesisSpec]) -> None:
        self.script, self.program = script, program
        self.streams: dict[_Id, Stream] = {}
        self.store: dict[str, bytes] | None = None
        self.roaming = Roaming(
            specs, getattr(script.runtime, "choose", None), script.runtime.reach, prefix=script.prefix
        )
        self._sent: dict[_Id, tuple[Stage, Handle]] = {}
        self._got: dict[_Id, Handle] = {}
        self._left: set[_Id] = set()
        """Requests with which the consumer's stage is done."""
        self._waits: dict[str, Callable[[], bool]] = {}
        self._meetings: dict[int, set[str]] = {}
        self._rushed: dict[_Id, int] = {}
        self._producers = 0
        self._stopped = False

    def play(self) -> None:
        """Build the stages, run the actors, judge by the model."""
        script = self.script
        script.faults.roaming = self.roaming
        script._others_done = self._nobody_can_go_on  # type: ignore[method-assign]
        if self.program.connector:
            self._register_store()
        self._start_producer()
        self.consumer = script.consumer(**self._connector())
        self.roaming.attach(self.consumer.connector, script.patcher.replace)
        steps = _numbered(self.program)
        self._lanes = [lane for lane in LANES if any(VERBS[op.verb] == lane for op, _, _ in steps)]
        for lane in self._lanes:
            mine = [step for step in steps if VERBS[step[0].verb] in (lane, "")]
            script.actor(lane, self._act, lane, mine)
        script.run()
        self._let_poll()
        for stream in self.streams.values():
            stream.harm = self._harm(stream.label)
            script.broken += judge(stream, records_failures=script.target.capabilities.send_failures)

    def _let_poll(self) -> None:
        """Let the receive thread pass once: it drops what it polled for an aborted request then."""
        trace, name, adapter = self.script.runtime.trace, self.consumer.name, self.consumer.adapter
        since = len(trace)

        def passed() -> bool:
            return not adapter._pending_load_reqs or (
                sum(1 for _ in trace.since("idle.recv", since, name)) >= _POLLS
            )

        self.script.until(passed, f"{name} has dropped what nobody waits for")

    # -- actors -------------------------------------------------------------------------------

    def _act(self, lane: str, steps: list[tuple[Op, int, int]]) -> None:
        for op, generation, number in steps:
            if op.verb == "sync":
                self._meet(lane, number)
            elif not self._stopped:
                getattr(self, f"_{op.verb}")(op, (op.label, generation))

    def _meet(self, lane: str, number: int) -> None:
        there = self._meetings.setdefault(number, set())
        there.add(lane)
        self._wait(lane, lambda: len(there) == len(self._lanes), "the others at a meeting")

    def _wait(self, lane: str, ready: Callable[[], bool], what: str) -> None:
        self._waits[lane] = ready
        self.script.until(ready, what)
        del self._waits[lane]

    def _nobody_can_go_on(self) -> bool:
        """Tell whether every actor but the reading one has ended or waits for something that is not there."""
        runtime = self.script.runtime
        return all(
            lane in self._waits and not self._waits[lane]()
            for lane in runtime.actors
            if lane not in runtime.finished and lane != "code2wav"
        )

    # -- the producer's scheduler -------------------------------------------------------------

    def _admit(self, op: Op, me: _Id) -> None:
        label, generation = me
        before, script = (label, generation - 1), self.script
        if generation > 1:
            self._wait("talker", lambda: self._is_over(before), f"every stage is done with {label}")
            ended = [self._sent[label, g][1] for g in range(1, generation) if self.streams[label, g].ended]
            if ended:  # also one that was released while its terminal was still queued: that had no effect
                if not op.n & RUSH:
                    script.drain(self.producer)
                self.producer.release(ended[-1])
            if not op.n & EAGER:
                script.drain(self.producer)
        if op.n & RUSH and generation > 1:
            self._rushed[me] = len(script.runtime.trace)
        session = bool(op.n & SESSION)
        handle = self.producer.admit(label, generation=generation, resumable=session)
        self._sent[me] = (self.producer, handle)
        self.streams[me] = Stream(
            label=label, generation=generation, may_be_refused=generation > 1 and bool(op.n & EAGER)
        )

    def _is_over(self, me: _Id) -> bool:
        return me in self._left and me in self._sent and self._sent[me][1].over

    def _live(self, me: _Id) -> Handle | None:
        handle = self._sent[me][1]
        return None if handle.over else handle

    def _emit(self, op: Op, me: _Id) -> None:
        with self.producer.turn:  # an abort comes before or after, as with one scheduler thread
            if (handle := self._live(me)) is None:
                return
            self.producer.emit(handle, op.n)
            self.streams[me].frames += op.n
        self._heed_refusal(me)

    def _segment(self, op: Op, me: _Id) -> None:
        with self.producer.turn:
            if (handle := self._live(me)) is None:
                return
            request = handle.request
            request._omni_segment_generation = getattr(request, "_omni_segment_generation", 0)
            self.producer.emit(handle, op.n, segment_end=True)
            request.num_computed_tokens = 0
            request._omni_segment_generation += 1
            self.streams[me].frames += op.n
            self.streams[me].boundaries += 1
        self._heed_refusal(me)

    def _end(self, op: Op, me: _Id) -> None:
        with self.producer.turn:
            if (handle := self._live(me)) is None:
                return
            handle.request.resumable = False
            self.producer.end(handle, op.n)
            self.streams[me].frames += op.n
            self.streams[me].ended = True
        self._heed_refusal(me)

    def _late(self, op: Op, me: _Id) -> None:
        """One more output of a request that is over, as a step in flight gives it."""
        stage, handle = self._sent[me]
        if not handle.over or stage is not self.producer:
            return
        self.script.drain(stage)
        stream = self.streams[me]
        before, handle.sent.refused = handle.sent.refused, ""
        computed = handle.request.num_computed_tokens + op.n
        with stage.turn:
            stage.hand_over(handle, handle.sent.frames, op.n, computed=computed)
        stream.late, stream.late_recorded = True, bool(handle.sent.refused)
        handle.sent.refused = before

    def _release(self, op: Op, me: _Id) -> None:
        stage, handle = self._sent[me]
        if stage is self.producer and (me in self._left or not handle.over):
            stage.release(handle)

    def _restart(self, op: Op, me: _Id) -> None:
        self._kill_producer()
        self._start_producer()

    def _stop(self, op: Op, me: _Id) -> None:
        self._stopped = True
        self._kill_producer()
        self.script.natural_release = False

    def _register_store(self) -> None:
        """Let the stages use a connector of another class; both of its objects hold one store."""
        target = self.script.target
        self.store = _Store.shared = {}
        if target.spec not in _registered:  # a factory takes a name once in a process
            target.register_connector(_OTHER, lambda config: _Store(config, target))
            _registered.add(target.spec)

    def _start_producer(self) -> None:
        self._producers += 1
        name = "producer" if self._producers == 1 else f"producer{self._producers}"
        self.producer = self.script.stage(
            1, name, chunk=self.program.chunk, receives=False, **self._connector()
        )

    def _connector(self) -> dict[str, Any]:
        return {"connector": _OTHER} if self.program.connector else {}

    def _kill_producer(self) -> None:
        """Shut the stage down as it is; the engine drops its requests, the consumer aborts them."""
        stage, script = self.producer, self.script
        for me in self.streams:
            if not self._is_over(me):
                self._sent[me][1].sent.aborted = True
                self._drop(me)
        stage.adapter.shutdown()
        for thread in (stage.adapter.save_thread, stage.adapter.recv_thread):
            thread.join()
        for handle in stage.handles:
            handle.over = True
        script.stages.remove(stage)
        script.seen.sent += [h.sent for h in stage.handles]

    def _heed_refusal(self, me: _Id) -> None:
        """An engine that is refused an id fails the request on every stage.

        Failures are recorded by request id: where the last request of the id may still fail, its record ends
        the new one too.
        """
        handle, stream = self._sent[me][1], self.streams[me]
        reason = handle.sent.refused
        by_id = any(word in reason for word in _BY_ID)
        if reason and (by_id or stream.may_be_refused) and me not in self._left:
            stream.refused = reason if by_id else ""
            if not handle.over:
                self.producer.abort(handle)
            self._drop(me)

    # -- the client -----------------------------------------------------------------------------

    def _abort(self, op: Op, me: _Id) -> None:
        self._wait("client", lambda: me in self._sent, f"{me[0]} is admitted")
        if op.n:
            self._abort_producer(me)
            self._drop(me)
        else:
            self._drop(me)
            self._abort_producer(me)

    def _abort_producer(self, me: _Id) -> None:
        stage, handle = self._sent[me]
        with stage.turn:
            if not handle.over:
                stage.abort(handle)

    def _leave(self, op: Op, me: _Id) -> None:
        self._wait("client", lambda: me in self._got or me in self._left, f"{me[0]} has a consumer")
        self._drop(me)

    def _drop(self, me: _Id) -> None:
        """Abort a request at its consumer."""
        self.streams[me].aborted = True
        with self.consumer.turn:
            handle = self._got.get(me)
            if handle is not None and not handle.over:
                self.consumer.abort(handle)
            self._left.add(me)

    # -- the consumer's scheduler -----------------------------------------------------------------

    def _join(self, op: Op, me: _Id) -> None:
        self._wait("code2wav", lambda: me in self._sent, f"{me[0]} is admitted")
        if me[1] > 1:
            self._wait("code2wav", lambda: self._clean(me) or self._stuck(), f"the last {me[0]} is reclaimed")
            if not self._clean(me):  # the first chunk comes later than this meeting: the engine gives up
                self._drop(me)
                self._abort_producer(me)
        with self.consumer.turn:
            if me not in self._left:
                resumable = bool(self._sent[me][1].request.resumable)
                self._got[me] = self.consumer.admit(me[0], generation=me[1], resumable=resumable)

    def _clean(self, me: _Id) -> bool:
        """Tell whether nothing that an earlier request of the id left can reach this one."""
        if me in self._left:
            return True
        since = self._rushed.get(me)
        first = f"{me[0]}_1_0"
        trace = self.script.runtime.trace
        there = since is None or any(e.key == first for e in trace.since("put.exit", since))
        return there and self.script.drained(self.producer)

    def _stuck(self) -> bool:
        return self._nobody_can_go_on() and self.script.drained(self.producer)

    def _read(self, op: Op, me: _Id) -> None:
        handle = self._got.get(me)
        if handle is not None and not handle.over:
            self.consumer.consume(handle, frames=len(handle.got.frames) + op.n)
            handle.got.waiting = False

    def _finish(self, op: Op, me: _Id) -> None:
        handle = self._got.get(me)
        if handle is None:
            return
        stream = self.streams[me]
        if not handle.over:
            self.consumer.consume(handle)
        stream.got = msgspec.structs.replace(handle.got, frames=list(handle.got.frames))
        stream.read_to_end = not handle.got.aborted
        with self.consumer.turn:
            if not handle.over:  # its deadline would do this
                handle.got.waiting = False
                self.consumer.abort(handle)
            self._left.add(me)

    # -- judgement --------------------------------------------------------------------------------

    def _harm(self, label: str) -> Harm:
        return max(
            (s.harm for s in self.roaming.struck if s.concerns(label)),
            key=_SEVERITY.index,
            default=Harm.NONE,
        )

    def excused(self, name: str) -> bool:
        """Tell whether a nemesis itself made this object of /dev/shm outlive its stream."""
        key = key_of_lock_name(name) or name
        return any(s.leaves and s.key == key for s in self.roaming.struck)


class FuzzWorkload(Workload):
    """A fuzzed program as a zero-argument program of the explorer.

    Attributes:
        wanted: identity that alone counts as the failure, empty for whatever comes first; or the fingerprint
            of the identity that comes first if it shows.
        run: the last run.
        findings: what the last execution found, by identity.
    """

    def __init__(self, target: Target, program: Program, *, prefix: str = "", wanted: str | int = "") -> None:
        self.specs = choose(program.nemeses, target.capabilities)
        self.fuzzed, self.wanted = program, wanted
        self.run: FuzzRun | None = None
        self.findings: dict[str, Finding] = {}
        scenario = Scenario(
            id="fuzz/program", program=self._play, story=str(program), invariants=("*",), source="generated"
        )
        super().__init__(target, scenario, prefix=prefix)
        self.__qualname__ = f"{PREFIX}{program.encode()}"

    def __call__(self) -> None:
        """Run once.

        Raises:
            ContractViolation: something was found, and `wanted` is it or is empty.
        """
        self.run, self.findings = None, {}
        try:
            super().__call__()
        except ContractViolation as violation:
            violation.identity = next(i for i, f in self.findings.items() if f is violation.findings[0])
            raise

    def _play(self, script: Script) -> None:
        self.run = FuzzRun(script, self.fuzzed, self.specs)
        self.run.play()

    def _judge(self, script: Script) -> list[Finding]:
        run, seen = self.run, script.seen
        if run is not None:
            seen.quiet = [n for n in seen.quiet or [] if not run.excused(n)]
            seen.closed = [n for n in seen.closed or [] if not run.excused(n)]
            seen.leftovers = [
                x
                for x in seen.leftovers or []
                if x.container != "_pending_keys"
                or not any(s.leaves and s.key in x.entry for s in run.roaming.struck)
            ]
        broken = [*script.broken, *run_common(seen)]
        if run is not None and run.store and not {"stop", "restart"} & {op.verb for op in self.fuzzed.ops}:
            broken.append(_kept_in_store(sorted(run.store)))
        for item in broken:
            self.findings.setdefault(identity_of(item), _finding(item))
        if isinstance(self.wanted, str):
            return [f for i, f in self.findings.items() if self.wanted in ("", i)]
        return sorted(self.findings.values(), key=lambda f: self._of_token(f))

    def _of_token(self, finding: Finding) -> bool:
        return not any(f is finding and fingerprint(i) == self.wanted for i, f in self.findings.items())


def identity_of(item: Broken) -> str:
    """Invariant and message without names and numbers: equal for the same defect in any program."""
    message = _WHO.sub("a request", item.message)
    if item.message.endswith("raised"):
        message += f" {item.found.split(':')[0]}"
    return f"{_invariant(item)}: {message}"


def _invariant(item: Broken) -> str:
    return next((i for i in item.family if i != "*"), "I37b")


def _finding(item: Broken) -> Finding:
    return Finding(
        invariant=_invariant(item),
        message=item.message,
        expected=item.expected,
        found=item.found,
        key=item.key,
        evidence=item.evidence,
    )


def _kept_in_store(keys: list[str]) -> Broken:
    return Broken(
        family=("I51",),
        message="a connector of another class keeps objects that nobody will read",
        expected="an empty store",
        found=", ".join(keys),
        key=keys[0],
    )


def _numbered(program: Program) -> list[tuple[Op, int, int]]:
    """Each operation with the generation that it means and its place."""
    generations: dict[str, int] = {}
    steps = []
    for number, op in enumerate(program.ops):
        if op.verb == "admit":
            generations[op.label] = generations.get(op.label, 0) + 1
        steps.append((op, generations.get(op.label, 0), number))
    return steps
