"""Parking: requests without a chunk are out of the scheduler's sight, and come back unless they are gone."""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _ids(queue: Any) -> list[str]:
    return [r.external_req_id for r in queue]


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


@scenario("parking/order-kept", invariants=("I44", "I9"), source="vllm-omni#1691; vllm-omni#1409")
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
        consumer.before_scheduling(act)
        s.attempt(consumer.tick)
        now = [_ids(consumer.waiting), _ids(consumer.running)]
        s.expect(
            "I44", now == wanted, f"after a tick that did {act.__name__}", expected=str(wanted), found=now
        )
        ready = sorted(consumer.adapter.requests_with_ready_chunks)
        s.expect("I44", not ready, "restoring makes nothing ready", found=ready)
    s.expect("I9", seen == [[], []], "the scheduler sees no request without a chunk", found=seen)
    _finish_all(producer, consumer, ("W1", "W2", "W3", "R1", "R2"))


@scenario("parking/placeholder-waits", invariants=("I9",), source="vllm-omni#1409; vllm-omni#1410")
def placeholder_waits(s: Script) -> None:
    """A request was submitted ahead with a placeholder prompt. The model never runs the placeholder:
    the first input that it sees is chunk 0."""
    producer, consumer = s.pair()
    producer.admit("R")
    handle = consumer.admit("R")
    handle.request.prompt_token_ids = [0] * 5
    visible: list[str] = []
    for _ in range(3):
        consumer.before_scheduling(lambda: visible.extend(_ids(consumer.waiting)))
        s.expect("I9", consumer.tick() == 0, "nothing runs before chunk 0", found=handle.got)
    s.expect("I9", not visible, "the scheduler does not see the placeholder", found=visible)
    producer.emit("R", 4)
    consumer.consume("R", frames=1)
    s.expect("I9", not handle.got.broken, "the first model input is chunk 0", found=handle.got.broken)
    producer.end("R")


def _free(stage: Stage, *labels: str) -> None:
    """Free requests as a scheduler that does not tell the adapter."""
    for handle in map(stage.handle, labels):
        handle.got.aborted = True
        stage.forget(handle)


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


@scenario("parking/freed-while-parked", invariants=("I45",), source="vllm-omni#3736; vllm-omni#3774")
def freed_while_parked(s: Script) -> None:
    """A parked request is freed by the scheduler in the middle of a tick, without the finish verb: it
    is not put back, its neighbours are, and after the next tick the adapter has forgotten it."""
    producer, consumer = s.pair()
    _five(s, consumer, producer)
    consumer.before_scheduling(lambda: _free(consumer, "W2", "R1"))
    consumer.tick()
    consumer.tick()
    for label in ("W2", "R1"):
        _expect_gone(s, consumer, label)
    now = _ids(consumer.waiting) + _ids(consumer.running)
    s.expect("I45", now == list(map(s.external, ("W1", "W3", "R2"))), "the neighbours are back", found=now)
    producer.abort("R1")
    _finish_all(producer, consumer, ("W1", "W3", "R2"))


@scenario("parking/freed-between-ticks", invariants=("I45",), source="vllm-omni#3736; vllm-omni#3774")
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
