"""The lanes of a fuzzed program meet in every order, and each stage hears of each abort."""

import contextlib
from types import SimpleNamespace

import pytest

from omni_verify.checks.observation import Delivered, Sent
from omni_verify.engine.control import ControlledRuntime
from omni_verify.engine.explore import explore
from omni_verify.harness.fuzz.model import Stream
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.reader import ReaderVerbs
from omni_verify.harness.fuzz.rules import Op
from omni_verify.harness.fuzz.talker import TalkerVerbs
from omni_verify.harness.fuzz.thinker import ThinkerVerbs
from omni_verify.harness.handle import Handle
from omni_verify.harness.turn import Turn, verb
from omni_verify.trace import Trace

IDS = (("R_1", 1), ("R", 1))


class Scheduler:
    """A stage that only keeps who is live; an abort takes several steps, as one with an adapter does."""

    def __init__(self, runtime, name):
        self.runtime, self.name = runtime, name
        self.turn = Turn(runtime, name, enforced=True)

    @verb
    def admit(self, label, generation):
        sent = Sent(label=label, stage=self.name, generation=generation)
        got = Delivered(label=label, stage=self.name, generation=generation)
        return Handle(label=label, external=label, internal=label, request=None, sent=sent, got=got)

    @verb
    def emit(self, handle, frames):
        handle.sent.frames += frames

    @verb
    def abort(self, handle):
        self.runtime.reach("abort.enter", handle.label)
        handle.sent.aborted = handle.over = True
        self.runtime.reach("abort.exit", handle.label)


class Lanes(ThinkerVerbs, ReaderVerbs):
    """Thinker and client of a program whose talker has admitted everything and does nothing else."""

    def __init__(self, runtime):
        super().__init__(SimpleNamespace(runtime=runtime, until=runtime.until), Program(ops=(), stages=3))
        self.thinker, self.producer, self.consumer = (
            Scheduler(runtime, n) for n in ("thinker", "producer", "consumer")
        )
        for label, generation in IDS:
            self.streams[label, generation] = Stream(label=label, generation=generation)
            self._sent[label, generation] = (self.producer, self.producer.admit(label, generation))

    def feed(self):
        for me in IDS:
            self._feed(Op("feed", me[0], 1), me)

    def abort(self, order):
        for me in IDS:
            self._abort(Op("abort", me[0], order), me)


@pytest.mark.parametrize("order", [0, 1])
def test_an_abort_reaches_the_thinkers_request_whenever_it_is_admitted(order):
    fed = set()

    def program():
        runtime = ControlledRuntime("")
        lanes = Lanes(runtime)
        runtime.spawn("thinker", lanes.feed)
        runtime.spawn("client", lambda: lanes.abort(order))
        runtime.run()
        assert not runtime.failures
        fed.add(tuple(me in lanes._feeds for me in IDS))
        for me, handle in lanes._feeds.items():
            assert handle.over and lanes.fed[me].aborted, f"the thinker goes on with {me[0]}"
            assert lanes.fed[me].frames == handle.sent.frames

    result = explore(program, strategy="exhaustive", budget=5000)
    assert [f.failure.message for f in result.failures] == []
    assert result.complete
    assert {(True, True), (False, False)} <= fed


def test_a_request_is_over_for_the_thinker_when_its_abort_is():
    """Else its id is used again, and drained for that, while the thinker still has to reclaim a chunk."""
    me, early = IDS[-1], []

    def program():
        runtime = ControlledRuntime("")
        lanes = Lanes(runtime)

        def use_again():
            runtime.until(lambda: me in lanes._fed_out, "the thinker is done")
            early.append(me in lanes._feeds and not lanes._feeds[me].over)

        runtime.spawn("thinker", lanes.feed)
        runtime.spawn("client", lambda: lanes.abort(0))
        runtime.spawn("talker", use_again)
        runtime.run()

    result = explore(program, strategy="exhaustive2", budget=20_000)
    assert result.complete
    assert set(early) == {False}


LATE = (
    "producer.save put.exit R_1_0",
    "producer.save cleanup.enter R_1_0",
    "code2wav load.enter R",
)


@pytest.mark.parametrize(
    ("events", "reason", "is_expired"),
    [
        (LATE, "connector.put reported failure", True),
        (LATE, "", False),
        ((LATE[0], LATE[2], LATE[1]), "connector.put reported failure", False),
        ((LATE[0], "talker load.enter R", LATE[1], LATE[2]), "connector.put reported failure", True),
        (LATE[:2], "connector.put reported failure", False),
        ((LATE[1], LATE[0], LATE[2]), "connector.put reported failure", False),
    ],
)
def test_a_failed_stream_is_excused_only_when_it_was_first_asked_for_too_late(events, reason, is_expired):
    trace = Trace()
    for event in events:
        trace.append(*event.split())
    state = TalkerVerbs(SimpleNamespace(runtime=SimpleNamespace(trace=trace)), Program(ops=()))
    sent = Sent(label="R", stage="producer", generation=1, refused=reason)
    failed = SimpleNamespace(label="R", sent=sent)
    sender = SimpleNamespace(turn=contextlib.nullcontext(), collect=lambda: None, stage_id=1)
    assert state._expired(sender, failed, "code2wav", 0) is is_expired


@pytest.mark.parametrize(
    ("ended", "aborted", "owed"), [(True, False, True), (False, False, True), (False, True, False)]
)
def test_a_stream_that_ended_by_an_error_is_released_before_its_id_is_used_again(ended, aborted, owed):
    """Its error terminal lingers for a consumer that may have left: the id is not free until the release."""
    state = TalkerVerbs(SimpleNamespace(), Program(ops=()))
    state.streams["R", 1] = Stream(label="R", generation=1, ended=ended)
    sent = Sent(label="R", stage="producer", generation=1, aborted=aborted)
    assert state._owes_release("R", 1, SimpleNamespace(sent=sent)) is owed
