"""Terminal: the one chunk that ends a stream, on every way that an end can take."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("terminal/retained", invariants=("I33", "I23"), source="vllm-omni#4349; article section 5.5")
def retained(s: Script) -> None:
    """The producer has sent its terminal with success and retired. The consumer comes late: the
    terminal and everything before it are still there; afterwards the producer forgets the keys."""
    producer, consumer = s.pair()
    producer.admit("R")
    producer.emit("R", 4)
    producer.end("R", 4)
    s.drain(producer)
    consumer.admit("R")
    consumer.consume("R")
    got = consumer.handle("R").got
    s.expect(
        "I33",
        got.finishes == 1 and len(got.frames) == 8,
        "the late consumer gets all frames and the end",
        expected="8 frames and the end",
        found=f"{len(got.frames)} frames, {got.finishes} ends",
    )
    s.idle_rounds(producer, 3)


@scenario("terminal/queued-then-cleanup", invariants=("I34",), source="vllm-omni#6670; article section 5.5")
def queued_then_cleanup(s: Script) -> None:
    """The terminal waits in the save queue behind another request when the cleanup of its request
    arrives. The consumer still gets it, and the sender's state is freed afterwards."""
    producer, consumer = s.pair()
    for label in ("B", "R"):
        producer.admit(label)
    consumer.admit("R")
    s.actor("talker", producer.emit, "B", 4)

    def end_and_clean() -> None:
        producer.end("R", 4)
        handle = producer.handle("R")
        producer.adapter.cleanup(handle.internal, handle.external)
        s.mark("cleaned")

    s.actor("scheduler", end_and_clean)
    s.run_order("put.enter(B_1_0) < save.enter(R)", "mark(cleaned) < seg.write.enter(B_1_0)", blocked="I29")
    consumer.consume("R")
    got = consumer.handle("R").got
    s.expect(
        "I34",
        got.finishes == 1,
        "the queued terminal arrives",
        expected="one end",
        found=f"{got.finishes} ends, {len(got.frames)} frames",
    )
    s.finish_bystander(producer, consumer, "B")


@scenario(
    "terminal/put-returns-false", invariants=("I35", "I51"), source="vllm-omni#8082; article section 5.5"
)
def put_returns_false(s: Script) -> None:
    """The put of the terminal creates its object and reports failure; then the request is aborted.
    The failure is recorded and the whole key range is reclaimed."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)
    fault = s.fail_put("R_1_1", created=True)
    producer.end("R", 4)
    s.drain(producer)
    s.expect("I35", fault.struck, "the fault struck", found=fault.struck)
    recorded = producer.handle("R").sent.refused
    s.expect("I35", recorded, "the failed terminal is recorded", expected="a send failure", found="none")
    s.actor("client", producer.abort, "R")
    s.run()


@scenario("terminal/put-raises-after-create", invariants=("I35", "I31"), source="article section 5.5")
def put_raises_after_create(s: Script) -> None:
    """The put of the terminal creates its object and raises; then the request is aborted. The object
    exists although no put returned, and it is reclaimed."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)
    fault = s.fail_put("R_1_1", created=True, raises=True)
    producer.end("R", 4)
    s.drain(producer)
    s.expect("I35", fault.struck, "the fault struck", found=fault.struck)
    s.actor("client", producer.abort, "R")
    s.run()


@scenario(
    "terminal/put-returns-false-no-abort",
    invariants=("I35", "I39"),
    source="vllm-omni#4349; article section 5.5",
)
def put_returns_false_no_abort(s: Script) -> None:
    """The put of the terminal fails after a natural end and no abort ever comes: the sender's state
    and its unread chunks are reclaimed all the same."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)
    fault = s.fail_put("R_1_1", created=True)
    producer.end("R", 4)
    s.drain(producer)
    s.expect("I35", fault.struck, "the fault struck", found=fault.struck)


@scenario(
    "terminal/consumer-stops-early",
    invariants=("I50", "I51"),
    weak_spots=("W19",),
    source="vllm-omni#4349; article section 5.5",
)
def consumer_stops_early(s: Script) -> None:
    """The producer has ended normally; the consumer aborts with chunks unread. When all stages are
    done with the request, everything that nobody will read is released."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    for _ in range(3):
        producer.emit("R", 4)
    producer.end("R", 4)
    consumer.consume("R", frames=4)
    s.drain(producer)
    s.actor("client", consumer.abort, "R")
    s.run()
    producer.release("R")
    consumer.release("R")


@scenario("terminal/parked-session-end", invariants=("I13", "I34"), source="vllm-omni#6889; vllm-omni#6670")
def parked_session_end(s: Script) -> None:
    """A resumable session is parked and then ended while frames of it still wait in the save queue:
    those frames are sent before the terminal, none is lost."""
    producer, consumer = s.pair()
    producer.admit("B")
    producer.admit("R", resumable=True)
    consumer.admit("R", resumable=True)
    s.actor("other", producer.emit, "B", 4)

    def speak_and_end() -> None:
        producer.emit("R", 4)
        producer.emit("R", 4)
        producer.end_parked("R")
        s.mark("ended")

    s.actor("session", speak_and_end)
    s.run_order("put.enter(B_1_0) < save.enter(R)", "mark(ended) < seg.write.enter(B_1_0)", blocked="I29")
    consumer.consume("R")
    got = consumer.handle("R").got
    s.expect(
        "I13",
        len(got.frames) == 8,
        "frames that were queued before the terminal arrive",
        expected="8 frames",
        found=f"{len(got.frames)} frames",
    )
    s.finish_bystander(producer, consumer, "B")
