"""Blocking: the scheduler's verbs never wait for I/O, and slow work runs with every lock free."""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _locks(stage: Stage) -> dict[str, Any]:
    """Every lock and condition of a stage's adapter, by attribute."""
    return {n: v for n, v in vars(stage.adapter).items() if callable(getattr(v, "acquire", None))}


def _expect_locks_free(s: Script, stage: Stage, point: str, key: str, body: Any, *args: Any) -> None:
    """Take every lock of a stage, one after the other, while its thread is inside `point`."""
    # Below the bound of a gate: the run may not be cut, and the lock set free, while it is awaited here.
    bound = s.settings.gate_s / 4

    def probe() -> None:
        s.mark("probing")
        for name, lock in _locks(stage).items():
            free = lock.acquire(timeout=bound)
            s.expect(
                "I37", free, f"{name} is held while {point} runs", expected="free", found="held", key=name
            )
            if free:
                lock.release()
        s.mark("probed")

    s.expect("I37", _locks(stage), "the adapter has locks", found="none")
    s.actor("driver", body, *args)
    s.actor("prober", probe)
    where = f"({key})" if key else ""
    s.run_order(f"{point}.enter{where} < mark(probing)", f"mark(probed) < {point}.exit{where}")


@scenario("blocking/locks-free-in-put", invariants=("I37",), source="vllm-omni#6089", explorable=False)
def locks_free_in_put(s: Script) -> None:
    """A put takes long. Meanwhile every lock of the adapter can be had."""
    producer = s.producer()
    producer.admit("R")
    _expect_locks_free(s, producer, "put", "R_1_0", producer.emit, "R", 4)
    producer.abort("R")


@scenario("blocking/locks-free-in-processor", invariants=("I37",), source="vllm-omni#6089", explorable=False)
def locks_free_in_processor(s: Script) -> None:
    """The processor takes long. Meanwhile every lock of the adapter can be had."""
    producer = s.producer()
    producer.admit("R")
    _expect_locks_free(s, producer, "proc", "R", producer.emit, "R", 4)
    producer.abort("R")


def _with_chunk(s: Script) -> tuple[Stage, Stage]:
    producer, consumer = s.pair()
    producer.admit("R")
    producer.emit("R", 4)
    s.drain(producer)
    consumer.admit("R")
    return producer, consumer


@scenario("blocking/locks-free-in-get", invariants=("I37",), source="vllm-omni#6089", explorable=False)
def locks_free_in_get(s: Script) -> None:
    """A get takes long. Meanwhile every lock of the receiving adapter can be had."""
    producer, consumer = _with_chunk(s)
    _expect_locks_free(s, consumer, "get", "R_1_0", consumer.tick)
    producer.end("R")
    consumer.consume("R")


@scenario("blocking/locks-free-in-decode", invariants=("I37",), source="vllm-omni#6089", explorable=False)
def locks_free_in_decode(s: Script) -> None:
    """A payload takes long to decode. Meanwhile every lock of the receiving adapter can be had."""
    producer, consumer = _with_chunk(s)
    _expect_locks_free(s, consumer, "deser", "", consumer.tick)
    producer.end("R")
    consumer.consume("R")


@scenario("blocking/save-during-put", invariants=("I29", "I28"), source="vllm-omni#6089")
def save_during_put(s: Script) -> None:
    """A put of one request is blocked. The scheduler hands over the next chunks of that request and of
    another and goes on at once; when the put comes back all of them are sent in order."""
    producer, consumer = s.pair()
    for label in ("A", "B"):
        producer.admit(label)
        consumer.admit(label)

    def speak() -> None:
        producer.emit("A", 4)
        s.await_point("put.enter(A_1_0)")
        for label in ("A", "B"):
            producer.emit(label, 4)
            producer.end(label)
        s.mark("handed-over")

    s.actor("scheduler", speak)
    s.run_order("put.enter(A_1_0) < mark(handed-over) < put.exit(A_1_0)", blocked="I29")
    consumer.consume()
    frames = {h.label: len(h.got.frames) for h in consumer.handles}
    s.expect("I28", frames == {"A": 8, "B": 4}, "every chunk arrives", expected="A 8, B 4", found=frames)


@scenario("blocking/abort-during-get", invariants=("I29", "I38"), source="vllm-omni#6089; vllm-omni#5672")
def abort_during_get(s: Script) -> None:
    """The get of a request is blocked, inside the connector, when the request is aborted on both
    stages: each abort returns at once."""
    producer, consumer = _with_chunk(s)
    s.actor("engine", consumer.tick)

    def abort() -> None:
        s.await_point("consumer.recv:get.enter(R_1_0)")
        consumer.abort("R")
        producer.abort("R")
        s.mark("aborted")

    s.actor("client", abort)
    s.run_order(
        "consumer.recv:get.enter(R_1_0) < mark(aborted) < consumer.recv:get.exit(R_1_0)", blocked="I29"
    )
    s.expect("I38", not consumer.handle("R").got.frames, "nothing is delivered after the abort")


@scenario(
    "blocking/abort-during-terminal-put",
    invariants=("I29", "I51"),
    weak_spots=("W19",),
    source="vllm-omni#6670; vllm-omni#8082",
)
def abort_during_terminal_put(s: Script) -> None:
    """The terminal is being written when its request is aborted: the abort returns at once, and what
    nobody will read is gone when all stages are done."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)

    def end_and_abort() -> None:
        producer.end("R", 4)
        s.await_point("put.enter(R_1_1)")
        producer.abort("R")
        s.mark("aborted")

    s.actor("client", end_and_abort)
    s.run_order("put.enter(R_1_1) < mark(aborted) < put.exit(R_1_1)", blocked="I29")
    s.drain(producer)
    producer.release("R")
