"""Gates over real threads: every trace is a linear extension, and no wait is without a bound."""

import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_verify.engine.gates import Gatekeeper, ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.runtime import Cut
from omni_verify.trace.event import Trace

LONG = 60.0
"""A bound that no test reaches: a wrong implementation fails by it instead of hanging."""


def order(*chains):
    made = PartialOrder()
    made.add(*chains)
    return made


def make(*chains, gate_s=LONG, wait_s=LONG, prefix=""):
    return ThreadRuntime(order(*chains), gate_s=gate_s, wait_s=wait_s, prefix=prefix)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    left = [t.name for t in set(threading.enumerate()) - before]
    assert not left, f"still blocked: {left}"


def marks(runtime):
    return [e.key for e in runtime.trace if e.point == "mark"]


def extends(made, trace):
    return not made.unobserved(trace)


@st.composite
def acyclic(draw, size=7):
    """A partial order over marks 0..size-1, and the order in which they arrive."""
    label = draw(st.permutations(range(size)))
    pairs = st.sampled_from(list(itertools.combinations(range(size), 2)))
    edges = draw(st.sets(pairs, max_size=14))
    chains = [f"mark({label[a]}) < mark({label[b]})" for a, b in sorted(edges)]
    return chains, draw(st.permutations(range(size)))


@given(acyclic())
def test_every_arrival_order_becomes_a_linear_extension(case):
    chains, arrivals = case
    made, trace, granted = order(*chains), Trace(), []
    keeper = Gatekeeper(made, trace)
    for mark in arrivals:
        keeper.submit("x", "mark", str(mark), {}, granted.append)
        assert all(keeper._blocked(p) for p in keeper.pending), "an arrival that may pass was kept"
    assert extends(made, trace)
    assert not keeper.pending
    assert granted == trace.events, "each is granted once, in the order of the trace"


@settings(max_examples=12, deadline=None)
@given(acyclic(6))
def test_threads_pass_in_a_linear_extension(case):
    chains, arrivals = case
    runtime = make(*chains)
    for mark in arrivals:
        runtime.spawn(f"actor{mark}", lambda m=str(mark): runtime.reach("mark", m))
    runtime.run()
    assert extends(runtime.keeper.order, runtime.trace)
    assert sorted(marks(runtime)) == [str(i) for i in range(6)]
    assert not runtime.cut
    assert sorted(runtime.finished) == sorted(runtime.actors)


def test_a_total_order_over_two_threads_alternates_them():
    steps = [f"mark({name}{i})" for i in range(20) for name in "ab"]
    runtime = make(" < ".join(steps))
    for name in "ab":
        runtime.spawn(name, lambda n=name: [runtime.reach("mark", f"{n}{i}") for i in range(20)])
    runtime.run()
    assert marks(runtime) == [f"{n}{i}" for i in range(20) for n in "ab"]


def test_an_event_grants_a_whole_chain_of_waiters_at_once():
    trace = Trace()
    keeper = Gatekeeper(order("mark(a) < mark(b) < mark(c) < mark(d)"), trace)
    for key in "dcb":
        keeper.submit("x", "mark", key, {}, lambda _e: None)
    assert len(trace) == 0
    keeper.submit("x", "mark", "a", {}, lambda _e: None)
    assert [e.key for e in trace] == ["a", "b", "c", "d"]


def test_forgetting_an_actor_forgets_its_threads_and_nobody_else():
    trace = Trace()
    keeper = Gatekeeper(order("mark(go) < put.enter"), trace)
    for actor in ("sender", "sender.save", "sender2", "other"):
        keeper.submit(actor, "put.enter", actor, {}, lambda _e: None)
    keeper.forget("sender")
    keeper.submit("m", "mark", "go", {}, lambda _e: None)
    assert [e.actor for e in trace] == ["m", "sender2", "other"]


# -- an order that cannot be satisfied --------------------------------------------------------------


def test_an_unsatisfiable_order_ends_at_the_bound_with_its_story():
    runtime = make("put.exit(R) < abort.enter(R) < put.exit(R)#2", gate_s=0.2)
    holding = threading.Event()

    def stuck_in_a_verb():
        runtime.reach("abort.enter", "R")  # waits for a put that nobody does

    def someone_else():
        runtime.reach("get.enter", "S")
        holding.wait(LONG)

    runtime.spawn("client", stuck_in_a_verb)
    runtime.spawn("holder", someone_else)
    try:
        with pytest.raises(Cut):
            runtime.run()
    finally:
        holding.set()
    assert "client waited in vain at gate abort.enter(R)" in runtime.cut
    assert "client at gate abort.enter(R) needs put.exit(R)" in runtime.cut
    graph, _, stacks = runtime.stacks.partition("stacks:")
    assert "client waits at gate abort.enter(R) for put.exit(R)" in graph
    assert "main waits at end of client, holder" in graph
    assert "holder is inside get(S)" in graph
    assert "in stuck_in_a_verb" in stacks
    assert "in someone_else" in stacks
    assert "MainThread" in stacks
    assert runtime.inside == {"holder": "get(S)"}


def test_after_the_cut_every_gate_is_open():
    runtime = make("mark(never) < mark(a)", "mark(never) < mark(b)", "mark(never) < mark(c)", gate_s=0.2)
    for key in "abc":
        runtime.spawn(key, lambda k=key: runtime.reach("mark", k))
    with pytest.raises(Cut):
        runtime.run()
    runtime.reach("mark", "late")
    for thread in runtime._threads.values():
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(marks(runtime)) == ["a", "b", "c", "late"]
    assert runtime.keeper.waits() == []
    assert len(runtime.keeper.order.unobserved(runtime.trace)) == 3, "an opened gate is no observed order"


def test_only_the_first_bound_that_runs_out_is_told():
    runtime = make("mark(never) < mark(a)", gate_s=0.2)
    runtime.spawn("a", lambda: runtime.reach("mark", "a"))
    with pytest.raises(Cut):
        runtime.run()
    first, stacks = runtime.cut, runtime.stacks
    with pytest.raises(Cut, match="waited in vain at gate mark"):
        runtime.until(lambda: False, "something else")
    assert (runtime.cut, runtime.stacks) == (first, stacks)


def test_an_actor_that_never_ends_is_cut_and_not_finished():
    runtime, stop = make(gate_s=0.1, wait_s=0.1), threading.Event()
    runtime.spawn("endless", lambda: stop.wait(LONG))
    try:
        with pytest.raises(Cut, match="main waited in vain at end of endless"):
            runtime.run()
        assert runtime.finished == []
        assert runtime.actors == ["endless"]
    finally:
        stop.set()


def test_an_actor_that_waits_for_the_scenario_is_inside_no_verb():
    """A nemesis may hold an actor inside a verb: then we block it, not the target."""
    runtime = make(gate_s=0.3, wait_s=0.3)

    def held():
        runtime.reach("put.enter", "R")
        runtime.until(lambda: False, "the window")

    runtime.spawn("producer", held)
    with pytest.raises(Cut):
        runtime.run()
    assert runtime.inside == {}
    assert "producer waits at the window" in runtime.stacks


def test_inside_is_the_innermost_operation_not_left():
    runtime, stop = make(gate_s=0.1, wait_s=0.1), threading.Event()

    def nested():
        for point, key in (
            ("abort.enter", "R"),
            ("cleanup.enter", "R_1_0"),
            ("cleanup.exit", "R_1_0"),
            ("lock.flock.enter", "R_1_1"),
        ):
            runtime.reach(point, key)
        stop.wait(LONG)

    def outside():
        runtime.reach("put.enter", "R")
        runtime.reach("put.exit", "R")
        stop.wait(LONG)

    runtime.spawn("client", nested)
    runtime.spawn("idler", outside)
    try:
        with pytest.raises(Cut):
            runtime.run()
        assert runtime.inside == {"client": "lock.flock(R_1_1)", "idler": ""}
    finally:
        stop.set()


# -- starvation: the early end --------------------------------------------------------------------


def idle(runtime, actor="producer.save", rounds=40):
    for _ in range(rounds):
        runtime.keeper.submit(actor, "idle.save", "producer", {}, lambda _e: None)


def idle_when_gated(runtime, actor="producer.save"):
    def body():
        with runtime.keeper.changed:
            runtime.keeper.changed.wait_for(lambda: runtime.keeper.pending, 30)
        idle(runtime, actor)

    thread = threading.Thread(target=body, name=actor, daemon=True)
    thread.start()
    return thread


def test_starvation_ends_the_run_long_before_its_bound():
    runtime = make("put.exit(R) < abort.enter(R)")  # bounds are a minute; the test's own limit is shorter
    runtime.spawn("client", lambda: runtime.reach("abort.enter", "R"))
    idle_when_gated(runtime)
    with pytest.raises(Cut, match=r"abort.enter\(R\) needs put.exit\(R\)"):
        runtime.run()


@pytest.mark.parametrize(
    "why", ["verb", "quiet verb before the window", "peer", "actor", "fresh event", "grant"]
)
def test_whatever_may_still_move_is_no_starvation(why):
    runtime = make("put.exit(R) < abort.enter(R)")
    keeper = runtime.keeper
    submit = lambda actor, point, key: keeper.submit(actor, point, key, {}, lambda _e: None)  # noqa: E731
    stop = threading.Event()
    if why == "verb":
        submit("producer.save", "put.enter", "R")
    elif why == "quiet verb before the window":
        submit("consumer.recv", "get.enter", "S")
    elif why == "peer":
        submit("sender", "process.start", "sender")
    elif why == "actor":
        runtime._threads["busy"] = threading.Thread(target=stop.wait, args=(LONG,), name="busy", daemon=True)
        runtime._threads["busy"].start()
    submit("client", "abort.enter", "R")
    runtime._waiting["main"] = ("end of client", lambda: why == "grant")
    idle(runtime, actor="other.save")
    if why == "fresh event":
        submit("x", "mark", "news")
    try:
        assert not runtime._starved()
    finally:
        stop.set()
        runtime.keeper.forget("client")


def test_the_scenario_itself_may_still_move():
    """A gated thread of the target looks while the scenario runs its own code and no actor exists."""
    runtime = make("mark(x) < put.enter(R)")
    runtime.keeper.submit("producer.save", "put.enter", "R", {}, lambda _e: None)
    idle(runtime, "consumer.save")
    assert not runtime._starved()
    runtime._waiting["main"] = ("a condition", lambda: False)
    assert runtime._starved()


def test_polling_in_vain_is_starvation():
    runtime = make("put.exit(R) < abort.enter(R)")
    runtime.keeper.submit("client", "abort.enter", "R", {}, lambda _e: None)
    runtime._waiting["main"] = ("end of client", lambda: False)
    for _ in range(40):
        for point in ("poll.enter", "get.enter", "get.exit", "poll.exit", "idle.recv"):
            runtime.keeper.submit("consumer.recv", point, "R", {}, lambda _e: None)
    runtime.keeper.submit("consumer.recv", "poll.enter", "R", {}, lambda _e: None)
    assert runtime._starved()


# -- waits, failures, names -------------------------------------------------------------------------


def test_until_returns_when_the_condition_holds_and_cuts_at_its_bound():
    runtime = make(wait_s=LONG)
    runtime.spawn("a", lambda: runtime.reach("mark", "x"))
    runtime.run()
    runtime.until(lambda: marks(runtime) == ["x"], "x")
    with pytest.raises(Cut, match="main waited in vain at y"):
        runtime.until(lambda: False, "y", 0.1)
    runtime.until(lambda: True, "what holds needs no time, also after a cut")


def test_an_exception_of_an_actor_is_kept_and_the_others_end():
    runtime = make()
    runtime.spawn("bad", lambda: 1 / 0)
    runtime.spawn("exits", lambda: (_ for _ in ()).throw(SystemExit(3)))
    runtime.spawn("good", lambda: runtime.reach("mark", "x"))
    runtime.run()
    assert {a: type(e) for a, e in runtime.failures.items()} == {
        "bad": ZeroDivisionError,
        "exits": SystemExit,
    }
    assert sorted(runtime.finished) == ["bad", "exits", "good"]
    assert not runtime.cut


def test_what_an_actor_raises_counts_before_the_cut_only():
    runtime = make("mark(never) < mark(b)", gate_s=0.2)
    runtime.spawn("early", lambda: 1 / 0)

    def late():
        runtime.reach("mark", "b")
        raise KeyError("our doing")

    runtime.spawn("late", late)
    with pytest.raises(Cut):
        runtime.run()
    runtime._threads["late"].join(30)
    assert list(runtime.failures) == ["early"]


def test_a_cut_inside_an_actor_ends_it_unfinished():
    runtime = make()
    runtime.spawn("a", lambda: runtime.until(lambda: False, "nothing", 0.1))
    with pytest.raises(Cut):
        runtime.run()
    runtime._threads["a"].join(30)
    assert runtime.finished == []
    assert runtime.failures == {}


def test_a_thread_that_follows_an_actor_does_not_inherit_its_name():
    """The system gives a thread's number to the next one; the trace must not."""
    runtime = make()
    for i in range(20):
        runtime.spawn(f"actor{i}", lambda: None)
        runtime.run()
        thread = threading.Thread(target=runtime.reach, args=("mark", str(i)), name=f"target{i}")
        thread.start()
        thread.join(30)
    assert [e.actor for e in runtime.trace if e.point == "mark"] == [f"target{i}" for i in range(20)]


def test_actors_run_in_several_batches():
    runtime = make("mark(a) < mark(b)")
    runtime.spawn("a", lambda: runtime.reach("mark", "a"))
    runtime.run()
    runtime.spawn("b", lambda: runtime.reach("mark", "b"))
    runtime.run()
    runtime.run()
    assert runtime.actors == runtime.finished == ["a", "b"]


def test_keys_lose_the_prefix_of_the_run():
    runtime = make("put.enter(R_1_0) < mark(x)", prefix="ov7-")
    runtime.reach("put.enter", "ov7-R_1_0")
    runtime.reach("mark", "x")
    assert [str(e) for e in runtime.trace] == ["main: put.enter(R_1_0)", "main: mark(x)"]
    runtime.name_thread(threading.current_thread(), threading.current_thread().name)
    assert runtime.actor() == "main"
