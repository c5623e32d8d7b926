"""Bounded state: memory depends on the requests that live, not on how many there were."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage

_REQUESTS = 300


def _one(s: Script, producer: Stage, consumer: Stage, number: int) -> None:
    """Run one request of a mixed load: ends, aborts at four moments, early stops, ids used again."""
    kind, label = number % 10, f"R{number if number % 10 != 9 else 9}"
    producer.admit(label)
    consumer.admit(label)
    consumer.tick()
    if kind == 0:  # aborted before anything was sent
        consumer.abort(label)
        producer.abort(label)
        return
    producer.emit(label, 2)
    if kind == 1:  # aborted with frames only accumulated
        producer.abort(label)
        consumer.abort(label)
        return
    producer.emit(label, 2)
    if kind == 2:  # aborted in mid-stream, the consumer first
        consumer.consume(label, frames=4)
        producer.emit(label, 4)
        consumer.abort(label)
        producer.abort(label)
        return
    producer.end(label, 1)
    if kind == 3:  # the consumer stops early
        consumer.abort(label)
        s.drain(producer)
        producer.release(label)
        consumer.release(label)
        return
    consumer.consume(label, settle=False)


@scenario(
    "bounded/mixed-load",
    invariants=("I39", "I51"),
    weak_spots=("W19",),
    source="vllm-omni#6352; vllm-omni#4349",
    explorable=False,
    slow=True,
)
def mixed_load(s: Script) -> None:
    """Three hundred requests, one after the other: normal ends, aborts at several moments, consumers
    that stop early, one id again and again. Afterwards every container has its size of before, and
    nothing is left in shared memory."""
    producer, consumer = s.producer(chunk=4), s.consumer()
    for number in range(10):
        _one(s, producer, consumer, number)
    s.drain()
    s.idle_rounds(producer, 2)
    before = {**s.sizes(producer), **s.sizes(consumer)}
    for number in range(10, _REQUESTS):
        _one(s, producer, consumer, number)
        if number % 10 == 9:
            s.drain()
            for stage in (producer, consumer):
                stage.handles.clear()
    s.idle_rounds(producer, 3 + _REQUESTS // 64)
    after = {**s.sizes(producer), **s.sizes(consumer)}
    grown = [f"{n}: {before.get(n, 0)} -> {size}" for n, size in after.items() if size > before.get(n, 0) + 8]
    s.expect(
        "I39",
        not grown,
        "a container grows with the requests",
        expected="sizes of before",
        found="; ".join(grown),
    )
    s.expect_no_residue("I51", f"{_REQUESTS} requests")
    for stage in (producer, consumer):
        s.expect_idle(stage)
