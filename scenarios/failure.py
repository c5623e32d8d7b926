"""Failure: a chunk that cannot be sent is an error of its request, wherever in the stream it stood."""

from omni_verify.faults.nemesis import Injected
from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


def _each_position(s: Script, *, created: bool = False, raises: bool = False) -> None:
    """Fail the put at every position in turn, each in a stream of its own: chunks of 3 frames, a terminal
    with 2 more."""
    chunks = s.small(4, 1)
    producer, consumer = s.pair()
    for position in range(chunks + 1):
        label = f"at{position}"
        producer.admit(label)
        consumer.admit(label)
        fault = s.fail_put(f"{label}_1_{position}", created=created, raises=raises)
        for _ in range(chunks):
            producer.emit(label, 3)
        producer.end(label, 2)
        s.drain(producer)
        consumer.consume(label)
        s.expect(
            "I36", fault.struck == 1, f"the put of chunk {position} was tried", found=fault.struck, key=label
        )
        got = consumer.handle(label).got
        s.expect(
            "I36",
            got.error or len(got.frames) == 3 * chunks + 2,
            f"the loss of chunk {position} is no secret to its consumer",
            expected="all frames, or an error",
            found=f"{len(got.frames)} frames, {got.finishes} ends, no error",
            key=label,
        )
        producer.abort(label)
        if not consumer.handle(label).over:
            consumer.abort(label)


@scenario(
    "failure/put-false",
    invariants=("I36",),
    weak_spots=("W7", "W31"),
    source="vllm-omni#6033; vllm-omni#4855",
)
def put_false(s: Script) -> None:
    """The put of chunk 0, 1, 2, 3 or of the terminal returns False: the consumer gets all frames or an
    error, never a shorter stream that looks whole, and never silence."""
    _each_position(s)


@scenario(
    "failure/put-raises",
    invariants=("I36",),
    weak_spots=("W7", "W31"),
    source="vllm-omni#6033; vllm-omni#4855",
)
def put_raises(s: Script) -> None:
    """The same when the put raises."""
    _each_position(s, raises=True)


@scenario(
    "failure/put-false-after-create", invariants=("I36",), weak_spots=("W7", "W34"), source="vllm-omni#6033"
)
def put_false_after_create(s: Script) -> None:
    """The same when the put returns False and its object exists: a connector may fail late."""
    _each_position(s, created=True)


@scenario(
    "failure/put-raises-after-create", invariants=("I36",), weak_spots=("W7", "W34"), source="vllm-omni#6033"
)
def put_raises_after_create(s: Script) -> None:
    """The same when the put raises and its object exists."""
    _each_position(s, created=True, raises=True)


@scenario(
    "failure/consumed-before-it-raised",
    invariants=("I36", "I28"),
    weak_spots=("W34",),
    source="measured on 0.26.0 to 0.30.0",
)
def consumed_before_it_raised(s: Script) -> None:
    """A put makes its object, a fast consumer takes it, then the put raises. The consumer waits for
    number k+1 and the sender would use k again: the stream goes on at k+1 or fails, it does not hang."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")

    def taken() -> bool:
        return any(
            e.point == "get.exit" and e.key == "R_1_1" and e.detail.get("found") for e in s.runtime.trace
        )

    s.after("put", "R_1_1", until=taken, what="the consumer has taken chunk 1")
    fault = s.fail_put("R_1_1", created=True, raises=True)

    def send() -> None:
        for _ in range(3):
            producer.emit("R", 4)
        producer.end("R", 4)

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    s.expect("I36", fault.struck == 1, "the put of chunk 1 was tried", found=fault.struck)
    got = consumer.handle("R").got
    s.expect(
        "I36",
        got.error or len(got.frames) == 16,
        "the stream arrives, or fails on record",
        expected="16 frames, or an error",
        found=f"{len(got.frames)} frames, no error",
    )


@scenario(
    "failure/processor-at-each-position",
    invariants=("I36", "I14"),
    weak_spots=("W26",),
    source="vllm-omni#5739",
)
def processor_at_each_position(s: Script) -> None:
    """The processor raises on chunk 0, 1, 2 or on the terminal, each in a stream of its own: the frames
    of that chunk are lost, and the consumer learns of it."""
    chunks = s.small(3, 1)
    producer, consumer = s.pair()
    for position in range(chunks + 1):
        label = f"at{position}"
        producer.admit(label)
        consumer.admit(label)
        fault = s.fault(
            "proc",
            label,
            times=(position + 1,),
            error=Injected("injected: bad hidden state"),
            note="the processor raises",
        )
        for _ in range(chunks):
            producer.emit(label, 3)
        producer.end(label, 2)
        s.drain(producer)
        consumer.consume(label)
        got = consumer.handle(label).got
        s.expect(
            "I36", fault.struck == 1, f"the processor saw chunk {position}", found=fault.struck, key=label
        )
        s.expect(
            "I14",
            not got.waiting or got.error,
            "the stream ends",
            found="silence until the deadline",
            key=label,
        )
        s.expect(
            "I36", got.error, "the loss is no secret", found=f"{len(got.frames)} frames, no error", key=label
        )
        producer.abort(label)
        if not consumer.handle(label).over:
            consumer.abort(label)
