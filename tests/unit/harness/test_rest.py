"""Rest is read off the trace and the adapter; what is left then is reported by owner and container."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from omni_verify.harness import rest


@pytest.fixture
def producer(script):
    return script.producer()


def reach(script, actor, point, key=""):
    script.runtime.trace.append(actor, point, key)


def test_drained_means_idle_after_the_last_verb(script, producer):
    producer.admit("R")
    producer.emit("R", 1)
    script.drain(producer)
    assert script.drained(producer)
    seen = len(script.runtime.trace)
    with script.runtime.keeper.changed:  # nothing else is recorded meanwhile
        for verb in ("save", "send", "abort", "release", "cleanup_all", "cleanup_sender"):
            reach(script, "x", f"{verb}.exit", "R")
            assert not script.drained(producer), verb
            reach(script, "x", "idle.save", "other")
            assert not script.drained(producer), "another stage idled"
            reach(script, "x", "idle.save", producer.name)
            assert script.drained(producer)
        producer.adapter._pending_save_reqs.append({})
        assert not script.drained(producer)
        producer.adapter._pending_save_reqs.clear()
    assert len(script.runtime.trace) > seen
    producer.abort("R")


def test_polled_counts_vain_polls_of_that_request_after_the_mark(script):
    consumer = script.consumer()
    trace = script.runtime.trace
    with script.runtime.keeper.changed:
        trace.append("consumer.recv", "get.exit", "R_1_0", {"found": False})
        since = len(trace)
        assert not script.polled(consumer, "R", since, 1)
        trace.append("consumer.recv", "get.exit", "R_1_0", {"found": True})
        trace.append("consumer.recv", "get.exit", "R2_1_0", {"found": False})
        trace.append("consumer.recv", "get.enter", "R_1_0")
        assert not script.polled(consumer, "R", since, 1)
        trace.append("consumer.recv", "get.exit", "R_1_0", {"found": False})
        assert script.polled(consumer, "R", since, 1)
        assert not script.polled(consumer, "R", since, 2)


def test_leftovers_name_owner_container_and_request(script, producer, prefix):
    producer.admit("R")
    producer.emit("R", 1)
    script.drain()
    producer.abort("R")
    script.drain()
    assert script.leftovers("R", producer) == []
    producer.adapter.put_req_chunk[f"{prefix}R"] = 3
    (left,) = script.leftovers("R", producer)
    assert (left.owner, left.container, left.entry) == ("producer", "put_req_chunk", "R")
    script.quiesce()
    assert left in script.seen.leftovers
    del producer.adapter.put_req_chunk[f"{prefix}R"]


def test_what_a_live_request_keeps_is_no_leftover(script, producer):
    producer.admit("R")
    producer.emit("R", 1)
    script.drain()
    assert script._leftovers() == []
    assert script.leftovers("R", producer), "asked for by name, it is shown"
    producer.abort("R")


def test_an_idle_stage_that_keeps_books_is_found(script, producer):
    script.expect_idle(producer)
    assert script.broken == []
    producer.adapter.put_req_chunk["ghost"] = 1
    script.expect_idle(producer)
    (broken,) = script.broken
    assert broken.family == ("I39",)
    assert "put_req_chunk" in broken.found
    del producer.adapter.put_req_chunk["ghost"]


def test_a_dead_thread_is_observed_at_the_quiet_point(script, producer):
    script.consumer()
    producer.adapter.stop_event.set()
    producer.adapter.save_thread.join(30)
    script.quiesce()
    assert "producer.save" in script.seen.dead_threads
    assert not [n for n in script.seen.dead_threads if n.startswith("consumer")]


def test_a_registration_gets_the_passes_in_which_it_must_be_dropped(script, monkeypatch):
    asked = []
    monkeypatch.setattr(script, "until", lambda predicate, what: asked.append(predicate))
    thread = SimpleNamespace(is_alive=lambda: True)
    adapter = SimpleNamespace(receives_chunks=True, _pending_load_reqs=["R"], recv_thread=thread)
    stage = SimpleNamespace(name="sink", adapter=adapter)
    reach(script, "sink.recv", "idle.recv", "sink")
    script.let_forget(stage)
    (went_round,) = asked
    adapter._pending_load_reqs = []
    reach(script, "other.recv", "idle.recv", "other")
    assert not went_round(), "a pass before the cleanup or of another stage says nothing"
    reach(script, "sink.recv", "idle.recv", "sink")
    assert went_round()
    adapter._pending_load_reqs = ["R"]
    assert not went_round(), "it may have been looked at just before its cleanup"
    for _ in range(rest._SLICES - 1):
        reach(script, "sink.recv", "idle.recv", "sink")
    assert went_round(), "it had its passes and is kept: the audit is to find it"


def test_nothing_is_waited_for_where_nothing_can_be_dropped(script, monkeypatch):
    asked = []
    monkeypatch.setattr(script, "until", lambda predicate, what: asked.append(predicate))
    thread = SimpleNamespace(is_alive=lambda: False)
    for adapter in (
        SimpleNamespace(receives_chunks=False, _pending_load_reqs=["R"], recv_thread=thread),
        SimpleNamespace(receives_chunks=True, _pending_load_reqs=[], recv_thread=thread),
        SimpleNamespace(receives_chunks=True, recv_thread=thread),
    ):
        script.let_forget(SimpleNamespace(name="sink", adapter=adapter))
    assert asked == []
    dead = SimpleNamespace(receives_chunks=True, _pending_load_reqs=["R"], recv_thread=thread)
    script.let_forget(SimpleNamespace(name="sink", adapter=dead))
    assert asked[0](), "a thread that has died drops nothing any more"


def test_the_quiet_audit_comes_after_the_pass_that_drops_a_registration(script, monkeypatch):
    """The receive thread sleeps from before the cleanup until somebody waits for its next pass."""
    consumer = script.consumer()
    asleep, awake, until = threading.Event(), threading.Event(), script.until
    wait = consumer.adapter._arrival.wait

    def sleep(seen):
        asleep.set()
        assert awake.wait(30)
        wait(seen)

    def wake(predicate, what):
        if "looks at its registrations" in what:
            awake.set()
        until(predicate, what)

    monkeypatch.setattr(consumer.adapter._arrival, "wait", sleep)
    monkeypatch.setattr(script, "until", wake)
    try:
        consumer.admit("R")
        consumer.tick()
        assert asleep.wait(30)
        consumer.abort("R")
        assert consumer.adapter._pending_load_reqs, "the registration is still there"
        script.quiesce()
    finally:
        awake.set()
    assert script.seen.leftovers == []


def test_the_quiet_audit_shows_what_nobody_will_read(script, producer):
    producer.admit("R")
    script.connector().put("1", "2", script.key("R", 1, 7), script.payload())
    producer.abort("R")
    script.quiesce()
    assert "R_1_7" in script.seen.quiet
    script.shutdown()
    assert script.seen.closed == []


def test_blocked_verbs_follow_the_declared_invariants(script):
    script.declare("mark(a) < mark(b)", blocked="I29")
    script.declare("mark(b) < mark(c)", "mark(c) < mark(d)", blocked="I24")
    script.declare("mark(d) < mark(e)")
    script.runtime.inside = {"client": "abort(R)", "idler": ""}
    assert script.blocked_verbs() == [("I29", "client inside abort(R)"), ("I24", "client inside abort(R)")]
    script.runtime.inside = {}
    assert script.blocked_verbs() == []


def test_shutdown_kills_peers_that_still_run(script):
    class Running:
        killed = False

        def ended(self):
            return self.killed

        def kill(self):
            self.killed = True

    script.peers.append(Running())
    script.shutdown()
    assert script.peers[0].killed
