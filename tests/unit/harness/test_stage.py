"""The verbs of a stage on the reference's adapter, and what its ledger says afterwards."""

import pytest

pytest.importorskip("torch")

from omni_verify.checks import run_common
from omni_verify.harness.request_queue import RequestQueue


def frames(*indices, label="R", generation=1):
    return [(label, generation, i) for i in indices]


def test_a_queue_has_the_three_methods_that_adapters_use():
    queue = RequestQueue()
    queue.add_request("b")
    queue.prepend_request("a")
    queue.prepend_requests(["x", "y"])
    assert list(queue) == ["x", "y", "a", "b"]


def test_a_stream_ends_once_with_all_its_frames(script):
    producer, consumer = script.pair()
    producer.admit("R")
    handle = consumer.admit("R")
    producer.emit("R", 3)
    producer.emit("R", 0)
    producer.end("R", 2)
    consumer.consume("R")
    assert handle.over
    assert handle.got.frames == frames(0, 1, 2, 3, 4)
    assert (handle.got.finishes, handle.got.error, handle.got.waiting) == (1, "", False)
    sent = producer.handle("R").sent
    assert (sent.frames, sent.ended, sent.aborted, sent.refused) == (5, True, False, "")
    assert consumer.live == producer.live == {}
    script.quiesce()
    assert run_common(script.seen) == []
    assert script.seen.quiet == []


def test_chunks_gather_frames(script):
    producer, consumer = script.pair(chunk=4)
    producer.admit("R")
    consumer.admit("R")
    for _ in range(6):
        producer.emit("R", 1)
    producer.end("R")
    consumer.consume("R")
    assert consumer.handle("R").got.frames == frames(*range(6))
    sizes = [e.detail["frames"] for e in script.runtime.trace.at("deliver", "R")]
    assert sizes[0] == 4
    assert sum(sizes) == 6


def test_consume_stops_at_the_frames_it_was_asked_for(script):
    producer, consumer = script.pair()
    producer.admit("R")
    consumer.admit("R")
    producer.emit("R", 2)
    producer.emit("R", 2)
    consumer.consume("R", frames=2)
    assert not consumer.handle("R").over
    assert consumer.handle("R").got.frames[:2] == frames(0, 1)
    producer.abort("R")
    consumer.abort("R")


def test_a_stream_that_falls_silent_is_waiting(script):
    producer, consumer = script.pair()
    producer.admit("R")
    handle = consumer.admit("R")
    producer.emit("R", 1)
    consumer.consume("R")
    assert handle.got.waiting
    assert handle.got.frames == frames(0)
    producer.end("R")
    consumer.consume("R")
    assert not handle.got.waiting
    assert handle.got.finishes == 1


def test_generations_are_counted_per_label(script):
    producer = script.producer()
    assert [producer.admit("R").sent.generation for _ in range(2)] == [1, 2]
    assert producer.admit("S").sent.generation == 1
    assert producer.handle("R").sent.generation == 2
    for handle in producer.handles:
        producer.abort(handle)


def test_ids_as_each_stage_sees_them(script, prefix):
    first, producer = script.stage(0), script.producer()
    assert first.admit("R").internal == f"{prefix}R-1x", "stage 0 has an internal id of its own"
    handle = producer.admit("R")
    assert (handle.internal, handle.external) == (f"{prefix}R", f"{prefix}R")
    first.abort("R")
    producer.abort("R")


def test_an_abort_is_in_the_ledger_of_both_sides(script):
    producer, consumer = script.pair()
    producer.admit("R")
    consumer.admit("R")
    producer.emit("R", 1)
    for stage in (producer, consumer):
        stage.abort("R")
        assert stage.handle("R").over
        assert stage.handle("R").sent.aborted
        assert stage.handle("R").got.aborted
        assert not stage.live
        assert not stage.waiting
        assert not stage.running
    script.quiesce()
    assert run_common(script.seen) == []


def test_a_failed_send_is_in_the_ledger(script):
    producer = script.producer()
    producer.admit("R")
    script.fail_put(times=())
    producer.emit("R", 1)
    script.drain()
    assert producer.handle("R").sent.refused
    assert producer.send_failures
    producer.abort("R")


def test_threads_are_named_before_they_reach_a_point(script):
    script.pair()
    script.until(
        lambda: (
            {"producer.save", "consumer.save", "consumer.recv"}
            <= {e.actor for e in script.runtime.trace.events}
        ),
        "all threads idle",
    )
    assert {e.actor.split(".")[0] for e in script.runtime.trace} <= {"main", "producer", "consumer"}
