"""Queues: the scheduler's thread parks and restores requests while others end streams."""

from collections.abc import Callable
from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import RequestQueue, Stage


def _ids(queue: Any) -> list[str]:
    return [r.external_req_id for r in queue]


def _during_schedule(stage: Stage, act: Callable[[], object]) -> None:
    """Run `act` once, between parking and scheduling of the next tick."""
    real = stage._schedule

    def schedule() -> int:
        stage._schedule = real  # type: ignore[method-assign]
        act()
        return real()

    stage._schedule = schedule  # type: ignore[method-assign]


class _Counting(set[Any]):
    """A set of the target's that counts what is added to it."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.added: list[Any] = []

    def add(self, item: Any) -> None:
        self.added.append(item)
        super().add(item)


def _five(s: Script, stage: Stage, feeder: Stage) -> None:
    """Bring R1 and R2 into the running queue and leave W1, W2, W3 waiting; nothing is ready."""
    for label in ("R1", "R2"):
        feeder.admit(label)
        feeder.emit(label, 1)
        stage.admit(label)
        stage.consume(label, frames=1)
    for label in ("W1", "W2", "W3"):
        stage.admit(label)
    stage.tick()


def _finish_all(feeder: Stage, stage: Stage, labels: tuple[str, ...]) -> None:
    for label in labels:
        if not any(h.label == label for h in feeder.handles):
            feeder.admit(label)
        feeder.end(label, 1)
    stage.consume(*labels)


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


@scenario("queues/order-kept", invariants=("I44", "I9"), source="vllm-omni#1691; vllm-omni#1409")
def order_kept(s: Script) -> None:
    """Two running and three waiting requests have no chunk. The scheduler sees none of them, nor runs a
    placeholder; after the tick each is back once, in its queue and order, and none was made ready, also
    when scheduling raised in between."""
    producer, consumer = s.pair()
    _five(s, consumer, producer)
    wanted = [_ids(consumer.waiting), _ids(consumer.running)]
    s.expect("I44", list(map(len, wanted)) == [3, 2], "three wait and two run", found=wanted)
    seen: list[list[str]] = []

    def look() -> None:
        seen.append(_ids(consumer.waiting) + _ids(consumer.running))

    def fail() -> None:
        look()
        raise MemoryError("injected: scheduling failed")

    for act in (look, fail):
        _during_schedule(consumer, act)
        s.attempt(consumer.tick)
        now = [_ids(consumer.waiting), _ids(consumer.running)]
        s.expect(
            "I44", now == wanted, f"after a tick that did {act.__name__}", expected=str(wanted), found=now
        )
        ready = sorted(consumer.adapter.requests_with_ready_chunks)
        s.expect("I44", not ready, "restoring makes nothing ready", found=ready)
    s.expect("I9", seen == [[], []], "the scheduler sees no request without a chunk", found=seen)
    _finish_all(producer, consumer, ("W1", "W2", "W3", "R1", "R2"))


@scenario("queues/placeholder-waits", invariants=("I9",), source="vllm-omni#1409; vllm-omni#1410")
def placeholder_waits(s: Script) -> None:
    """A request was submitted ahead with a placeholder prompt. The model never runs the placeholder:
    the first input that it sees is chunk 0."""
    producer, consumer = s.pair()
    producer.admit("R")
    handle = consumer.admit("R")
    handle.request.prompt_token_ids = [0] * 5
    visible: list[str] = []
    for _ in range(3):
        _during_schedule(consumer, lambda: visible.extend(_ids(consumer.waiting)))
        s.expect("I9", consumer.tick() == 0, "nothing runs before chunk 0", found=handle.got)
    s.expect("I9", not visible, "the scheduler does not see the placeholder", found=visible)
    producer.emit("R", 4)
    consumer.consume("R", frames=1)
    s.expect("I9", not handle.got.broken, "the first model input is chunk 0", found=handle.got.broken)
    producer.end("R")


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


def _free(stage: Stage, label: str) -> None:
    """Free a request as a scheduler that does not tell the adapter."""
    handle = stage.handle(label)
    handle.got.aborted = True
    stage._forget(handle)


def _expect_gone(s: Script, stage: Stage, label: str) -> None:
    queued = [i for i in _ids(stage.waiting) + _ids(stage.running) if i == s.external(label)]
    s.expect("I45", not queued, "a freed request comes back into a queue", found=queued, key=label)
    since, ident = len(s.runtime.trace), stage.handle(label).internal

    def dropped() -> bool:
        # The receive thread drops a stale entry when its turn comes; until then it may stand in the queue.
        return all(e.request_id != ident for e in list(stage.adapter._pending_load_reqs))

    s.until(lambda: dropped() or s.polled(stage, label, since), "the entry is dropped, or polled on")
    left = [f"{x.container}: {x.entry}" for x in s.leftovers(label, stage) if "cancelled" not in x.container]
    s.expect(
        "I45",
        not left,
        "a tick later the adapter still knows a freed request",
        found="; ".join(left),
        key=label,
    )


@scenario("queues/freed-while-parked", invariants=("I45",), source="vllm-omni#3736; vllm-omni#3774")
def freed_while_parked(s: Script) -> None:
    """A parked request is freed by the scheduler in the middle of a tick, without the finish verb: it
    is not put back, its neighbours are, and after the next tick the adapter has forgotten it."""
    producer, consumer = s.pair()
    _five(s, consumer, producer)
    _during_schedule(consumer, lambda: [_free(consumer, label) for label in ("W2", "R1")])
    consumer.tick()
    consumer.tick()
    for label in ("W2", "R1"):
        _expect_gone(s, consumer, label)
    now = _ids(consumer.waiting) + _ids(consumer.running)
    s.expect("I45", now == list(map(s.external, ("W1", "W3", "R2"))), "the neighbours are back", found=now)
    producer.abort("R1")
    _finish_all(producer, consumer, ("W1", "W3", "R2"))


@scenario("queues/freed-between-ticks", invariants=("I45",), source="vllm-omni#3736; vllm-omni#3774")
def freed_between_ticks(s: Script) -> None:
    """A request that waits for its chunk is freed by the scheduler between two ticks, without the
    finish verb: the next tick forgets it, so that the receive thread polls for it no more."""
    consumer = s.consumer()
    consumer.admit("R")
    consumer.tick()
    s.await_point("get.exit(R_1_0)")
    _free(consumer, "R")
    consumer.tick()
    _expect_gone(s, consumer, "R")
    consumer.adapter.cleanup_receiver(consumer.handle("R").internal)
