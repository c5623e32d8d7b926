"""The runner of one case: nothing but positive evidence is held, and nothing takes the runner down."""

import logging
import re
import threading

import msgspec
import pytest

from omni_verify.engine.order import PartialOrder
from omni_verify.harness.case import compact
from omni_verify.harness.result import CaseResult
from omni_verify.trace.event import Event
from omni_verify.verdict import Verdict

LONG = 60.0


def exchange(s, key="R_1_0"):
    """One put and one get: enough to be looked at."""
    connector = s.connector()
    connector.put("1", "2", key, 7)
    s.expect("I29", connector.get("1", "2", key) == (7, 1), "the value comes back")


def test_a_case_with_everything_is_held(play, tiny):
    def program(s):
        connector = s.connector()
        s.actor("writer", connector.put, "1", "2", "R_1_0", 7)
        s.actor("reader", lambda: s.expect("I29", s.get(connector, "R_1_0") == (7, 1), "arrives"))
        s.require("get.exit(R_1_0)")
        s.run_order("put.exit(R_1_0) < get.enter(R_1_0)")

    result = play(program, gate_s=LONG, wait_s=LONG)
    assert (result.verdict, result.reason) == (Verdict.HELD, "")
    assert set(result.evidence.finished) == {"writer", "reader"}
    assert result.evidence.orders == ("put.exit(R_1_0) < get.enter(R_1_0)",)
    assert tiny.connectors[0].closed
    assert "put" not in vars(tiny.connectors[0]), "instrumentation was not undone"
    assert [str(e) for e in result.trace if e.actor == "writer"][1:3] == [
        "writer: put.enter(R_1_0)",
        "writer: put.exit(R_1_0)",
    ]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=CaseResult) == result


def unreachable_order(s):
    s.actor("client", exchange, s)
    s.run_order("abort.exit(R) < put.enter(R_1_0)")


def unreached_requirement(s):
    exchange(s)
    s.require("seg.create.exit(R_1_0)")


def endless_actor(s):
    exchange(s)
    s.actor("endless", threading.Event().wait, 5)
    s.run()


def checks_nothing(s):
    s.connector()


def does_nothing(s):
    pass


def checks_nothing_but_runs(s):
    s.actor("idler", lambda: s.mark("x"))
    s.run_order("actor.start(idler) < mark(x)")


def other_order(s):
    exchange(s)
    s.order.add("get.enter(R_1_0) < put.enter(R_1_0)")  # declared, but never enforced


def condition_never_holds(s):
    exchange(s)
    s.until(lambda: False, "a miracle")


def order_over_another_key(s):
    exchange(s)
    s.order.add("put.enter(R_1_0) < get.enter(S_1_0)")


def cyclic_order(s):
    exchange(s)
    s.declare("mark(a) < mark(b)", "mark(b) < mark(a)")


def misspelt_point(s):
    exchange(s)
    s.await_point("put.entr(R_1_0)")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (unreachable_order, r"client at gate put.enter\(R_1_0\) needs abort.exit\(R\)"),
        (unreached_requirement, r"^point not reached: seg.create.exit\(R_1_0\)$"),
        (endless_actor, "waited in vain at end of endless.*actors that did not end: endless"),
        (does_nothing, "^no check had anything to look at$"),
        (checks_nothing, "^no check had anything to look at$"),
        (checks_nothing_but_runs, "^no check had anything to look at$"),
        (other_order, r"^order not observed: get.enter\(R_1_0\) < put.enter\(R_1_0\)$"),
        (order_over_another_key, "^order not observed"),
        (condition_never_holds, "waited in vain at a miracle"),
        (cyclic_order, "the scenario is wrong: the declared order is cyclic"),
        (misspelt_point, "the scenario is wrong: unknown point 'put.entr'. Did you mean 'put.enter'"),
    ],
)
def test_what_was_not_shown_is_inconclusive(play, program, reason):
    result = play(program)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert re.search(reason, result.reason), result.reason
    assert result.findings == []


def test_a_cut_case_carries_graph_and_stacks(play):
    result = play(unreachable_order)
    assert "client waits at gate put.enter(R_1_0) for abort.exit(R)" in result.stacks
    assert "in exchange" in result.stacks
    assert result.evidence.cut


# -- what the target does ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["program", "actor"])
@pytest.mark.parametrize("error", [KeyError("broken key"), SystemExit("it leaves"), MemoryError("no room")])
def test_an_exception_is_violated_with_its_text(play, where, error):
    def program(s):
        def body():
            raise error

        exchange(s)
        if where == "program":
            body()
        s.actor("client", body)
        s.run()

    result = play(program, invariants=("I29", "I31"))
    assert result.verdict is Verdict.VIOLATED
    assert [f.invariant for f in result.findings] == ["I29", "I31"]
    assert result.findings[0].found == f"{type(error).__name__}: {error}"
    assert result.findings[0].key == ("program" if where == "program" else "client")


def test_an_exception_before_the_cut_is_kept(play):
    """The one that raised is often why the other waits in vain."""

    def program(s):
        connector = s.connector()
        s.actor("reader", connector.get, "1", "2", "broken")
        s.actor("waiter", s.mark, "late")
        s.run_order("mark(never) < mark(late)")

    result = play(program)
    assert result.verdict is Verdict.VIOLATED
    assert "KeyError: 'broken'" in result.findings[0].found
    assert result.evidence.cut


def test_after_the_cut_the_common_checks_are_silent(play):
    def program(s):
        connector = s.connector()

        def client():
            connector.put("1", "2", "R_1_0", 7)
            connector.get("1", "2", "broken")

        s.actor("client", client)
        s.run_order("mark(never) < put.enter(R_1_0)")

    result = play(program)
    assert (result.verdict, result.findings, result.side_findings) == (Verdict.INCONCLUSIVE, [], [])


@pytest.mark.parametrize(
    ("point", "verdict"),
    [
        ("put.enter(R_1_0)", Verdict.VIOLATED),
        ("put.exit(R_1_0)", Verdict.INCONCLUSIVE),
        ("", Verdict.INCONCLUSIVE),
    ],
)
def test_blocked_is_a_finding_only_inside_a_verb(play, point, verdict):
    """The order cannot be satisfied; whether that is the target's doing shows where the actor stands."""
    release = threading.Event()

    def program(s):
        connector = s.connector()
        inner = connector.objects

        class Blocks(dict):
            def __setitem__(self, key, value):
                release.wait(5)

        connector.objects = Blocks() if point.startswith("put.enter") else inner

        def client():
            if point:
                connector.put("1", "2", "R_1_0", 7)
            release.wait(5)
            s.mark("done")

        s.actor("client", client)
        s.actor("other", s.mark, "x")
        s.run_order("mark(done) < mark(x)", blocked="I29")

    try:
        result = play(program, invariants=("I29",))
    finally:
        release.set()
    assert result.verdict is verdict
    if verdict is Verdict.VIOLATED:
        assert [(f.invariant, f.key) for f in result.findings] == [("I29", "client inside put(R_1_0)")]


def test_without_a_word_about_it_a_blocked_verb_is_inconclusive(play):
    release = threading.Event()

    def program(s):
        s.connector()

        def client():
            s.runtime.reach("abort.enter", "R")
            release.wait(5)

        s.actor("client", client)
        s.actor("other", s.mark, "x")
        s.run_order("abort.exit(R) < mark(x)")

    try:
        assert play(program).verdict is Verdict.INCONCLUSIVE
    finally:
        release.set()


def test_findings_on_other_invariants_stand_aside(play):
    def program(s):
        exchange(s)
        s.expect("I51", False, "something else is wrong")

    held = play(program, invariants=("I29",))
    assert (held.verdict, [f.invariant for f in held.side_findings]) == (Verdict.HELD, ["I51"])
    judged = play(program, invariants=("I29", "I51"))
    assert (judged.verdict, judged.reason) == (Verdict.VIOLATED, "something else is wrong")
    assert judged.side_findings == []


def test_a_missing_capability_does_not_apply(play):
    result = play(exchange, needs=("reap", "release", "connector"))
    assert result.verdict is Verdict.NOT_APPLICABLE
    assert result.reason == "the target lacks: reap, release"
    assert result.trace == []


def test_a_case_that_needs_its_own_directory_does_not_apply_without(play):
    result = play(exchange, isolation="mount")
    assert (result.verdict, result.reason) == (Verdict.NOT_APPLICABLE, "it needs a private mount namespace")


def test_warnings_of_the_target_are_kept_and_handlers_put_back(play):
    before = list(logging.getLogger().handlers)

    def program(s):
        exchange(s)
        logging.getLogger("target").warning("a chunk was %s", "lost")
        logging.getLogger("target").info("nothing")

    assert play(program).log == ["WARNING target: a chunk was lost"]
    assert logging.getLogger().handlers == before


def test_ten_repetitions_give_one_verdict(play):
    def program(s):
        connector = s.connector()
        for name in ("a", "b", "c"):
            s.actor(name, connector.put, "1", "2", name, 1)
        s.require("put.exit(a)", "put.exit(b)", "put.exit(c)")
        s.run_order("put.exit(c) < put.enter(a)", "put.exit(a) < put.enter(b)")
        s.expect("I29", len(connector.objects) == 3, "all arrive")

    seen = {
        (r.verdict, tuple(str(e) for e in r.trace if e.point.startswith("put.")))
        for r in (play(program, gate_s=LONG, wait_s=LONG) for _ in range(10))
    }
    assert len(seen) == 1
    assert seen.pop()[0] is Verdict.HELD


def test_compact_drops_idle_rounds_but_nothing_that_an_order_names():
    def event(point, actor="consumer.recv", key="R_1_0", **detail):
        return Event(0, actor, point, key, detail)

    order = PartialOrder()
    order.add("get.exit(R_1_1) < mark(x)", "reap.exit < mark(y)")
    boring = [event("idle.save"), event("poll.enter"), event("get.enter"), event("get.exit", found=False)]
    kept = [
        event("get.exit", found=True),
        event("get.enter", actor="reader"),
        event("get.exit", key="R_1_1"),
        event("reap.exit", key=""),
        event("put.enter", actor="producer.save"),
        event("commit.enter"),
    ]
    assert compact(boring + kept, order) == kept
