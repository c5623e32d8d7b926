"""Queues: the scheduler's thread parks and restores requests while others end streams."""

import threading
from collections.abc import Callable
from typing import Any

from omni_verify.harness.request_queue import RequestQueue
from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _ids(queue: Any) -> list[str]:
    return [r.external_req_id for r in queue]


class _Counting(set[Any]):
    """A set of the target's that counts what is added to it."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.added: list[Any] = []

    def add(self, item: Any) -> None:
        self.added.append(item)
        super().add(item)


@scenario(
    "queues/late-owner-cleanup",
    invariants=("I38b", "I46"),
    weak_spots=("W4",),
    source="vllm-omni#8082; article section 5.6",
)
def late_owner_cleanup(s: Script) -> None:
    """A stage that receives and sends ends a request; its terminal is being written when the same
    internal id is registered again for a new request. What the save thread cleans up afterwards is
    the old request's: the new one gets its chunk, and until then its deadline clock runs."""
    thinker, talker, decoder = s.stage(0, "thinker"), s.stage(1, "talker", worker_type="ar"), s.consumer()
    talker.admit("R")
    decoder.admit("R")

    def end_and_register_again() -> None:
        talker.end("R", 4)
        s.await_point("put.enter(R_1_0)")
        talker.admit("R")
        talker.tick()
        s.mark("registered-again")

    s.actor("scheduler", end_and_register_again)
    s.run_order("put.enter(R_1_0) < mark(registered-again) < put.exit(R_1_0)")
    s.drain(talker)
    decoder.consume("R")
    talker.tick()
    ident = talker.handle("R").internal
    if s.target.capabilities.deadline:
        s.expect(
            "I46",
            ident in talker.adapter._waiting_since,
            "the new request waits without a deadline clock",
            expected="a clock while it waits for a chunk",
            found="none: no deadline will ever end the wait",
            key="R",
        )
    thinker.admit("R", generation=2)
    thinker.emit("R", 4)
    _wait_past(s, thinker, talker)
    frames = talker.handle("R").got.frames
    s.expect(
        "I38b", len(frames) == 4, "the new request gets its chunk", expected="4 frames", found=frames, key="R"
    )
    thinker.end("R")
    if frames:
        talker.consume("R")
    else:
        talker.abort("R")


def _wait_past(s: Script, feeder: Stage, stage: Stage) -> None:
    """Let a bystander's chunk, sent after every other, arrive, and the receive thread go round thrice."""
    feeder.admit("P")
    stage.admit("P")
    feeder.emit("P", 1)
    stage.consume("P", frames=1)
    stage.tick()
    s.polls(stage, "P")
    stage.tick()
    feeder.end("P")
    stage.consume("P")


@scenario(
    "queues/tick-during-cleanup", invariants=("I44b", "I44"), weak_spots=("W2",), source="vllm-omni#2102"
)
def tick_during_cleanup(s: Script) -> None:
    """The scheduler puts parked requests back, one after the other, when the save thread has sent the
    terminal of another request and cleans up after it. Nothing that the scheduler iterates may change
    under it, and no parked request is lost."""
    talker, decoder = s.stage(1, "talker", worker_type="ar"), s.consumer()
    for label in ("A", "B", "C"):
        talker.admit(label)
    talker.admit("R", queue=False)

    class Waiting(RequestQueue):
        held = False

        def add_request(self, request: Any) -> None:
            if not Waiting.held:
                Waiting.held = True
                s.mark("restoring")
                s.until(lambda: s.drained(talker), "the save thread is done with the terminal")
            super().add_request(request)

    talker.waiting = Waiting(talker.waiting)

    def end_and_tick() -> None:
        talker.end("R", 4)
        s.await_point("put.enter(R_1_0)")
        talker.tick()

    s.actor("scheduler", end_and_tick)
    s.run_order("put.enter(R_1_0) < mark(restoring) < put.exit(R_1_0)")
    _expect_parked_are_back(s, talker, decoder)


def _expect_parked_are_back(s: Script, talker: Stage, decoder: Stage) -> None:
    """Judge that A, B and C, parked while R ended, are in the waiting queue once, and end all four."""
    decoder.admit("R")
    decoder.consume("R")
    s.expect(
        "I44",
        sorted(_ids(talker.waiting)) == sorted(map(s.external, "ABC")),
        "every parked request is back in its queue, once",
        expected="A, B, C",
        found=_ids(talker.waiting),
    )
    talker.abort("A", "B", "C")


def _gate_reads(request: Any, wait: Callable[[], None]) -> None:
    """Call `wait` whenever the request's internal id is read: a place inside every loop over requests."""
    ident = request.request_id

    def read(_: Any) -> Any:
        wait()
        return ident

    kind = type(request)
    request.__class__ = type(kind.__name__, (kind,), {"request_id": property(read, lambda _, value: None)})


def _finish_sending(s: Script, stage: Stage, label: str) -> None:
    """Hand the terminal over before the receiving side is cleaned up, as a generation stage does."""
    handle = stage.handle(label)
    handle.sent.ended, handle.request.status = True, s.target.status("FINISHED_STOPPED")
    stage.forget(handle)
    stage.adapter.save_async(None, handle.request)


@scenario(
    "queues/cleanup-inside-purge",
    invariants=("I44b", "I44"),
    weak_spots=("W2",),
    source="vllm-omni#2102; vllm-omni#3736",
    explorable=False,
)
def cleanup_inside_purge(s: Script) -> None:
    """The scheduler looks through the parked requests for dead ones when the save thread has sent the
    terminal of another request and cleans up after it: no parked request is lost or doubled."""
    talker, decoder = s.stage(1, "talker"), s.consumer()
    for label in ("A", "B", "C", "R"):
        talker.admit(label)
    talker.tick()
    scheduler: list[int] = []

    def wait() -> None:
        if threading.get_ident() in scheduler:
            scheduler.clear()
            s.mark("purging")
            s.until(lambda: s.drained(talker), "the save thread is done with the terminal")

    def end_and_tick() -> None:
        _finish_sending(s, talker, "R")
        s.await_point("put.enter(R_1_0)")
        talker.adapter.process_pending_chunks(talker.waiting, talker.running)
        scheduler.append(threading.get_ident())
        talker.adapter.restore_queues(talker.waiting, talker.running, talker.live)

    _gate_reads(talker.handle("B").request, wait)
    s.actor("scheduler", end_and_tick)
    s.run_order("put.enter(R_1_0) < mark(purging) < put.exit(R_1_0)")
    _expect_parked_are_back(s, talker, decoder)


@scenario("queues/ready-once", invariants=("I43",), source="article section 5.7; vllm-omni#1691")
def ready_once(s: Script) -> None:
    """Two requests have a chunk and the scheduler can run one. The one that it ran loses its ready
    marker, the other keeps it and runs later with the same chunk; each chunk was announced once."""
    producer, consumer = s.producer(), s.consumer(max_num_seqs=1)
    for label in ("A", "B"):
        producer.admit(label)
        consumer.admit(label)
    consumer.tick()
    loads = consumer.adapter._finished_load_reqs = _Counting()
    marks = consumer.adapter.requests_with_ready_chunks = _Counting()
    for label in ("A", "B"):
        producer.emit(label, 4)
    for label in ("A", "B"):
        s.wait_ready(consumer, [consumer.handle(label)])
    consumer.tick()
    ident = {label: consumer.handle(label).internal for label in ("A", "B")}
    s.expect("I43", ident["A"] not in marks, "the request that ran lost its marker", found=sorted(marks))
    s.expect("I43", ident["B"] in marks, "the request that did not run keeps its marker", found=sorted(marks))
    for label in ("A", "B"):
        producer.end(label)
    consumer.consume()
    for what, added in (("announced", loads.added), ("granted", marks.added)):
        counts = {label: added.count(i) for label, i in ident.items()}
        s.expect(
            "I43", counts == {"A": 2, "B": 2}, f"each chunk was {what} once", expected="2 each", found=counts
        )
    for label in ("A", "B"):
        frames = consumer.handle(label).got.frames
        s.expect("I43", len(frames) == 4, f"{label} ran each chunk once", expected="4 frames", found=frames)


@scenario("queues/last-window", invariants=("I47", "I14"), source="vllm-omni#5349; vllm-omni#1410")
def last_window(s: Script) -> None:
    """The terminal carries the last frames. That the upstream has ended does not end this stage: the
    frames run first, then the request finishes, once."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    producer.emit("R", 4)
    producer.end("R", 3)
    consumer.consume("R")
    got = consumer.handle("R").got
    s.expect("I47", len(got.frames) == 7, "the last frames run", expected="7 frames", found=len(got.frames))
    s.expect("I14", got.finishes == 1, "the request finishes once", found=got.finishes)
