"""Reuse of an external id: what the old request left must never reach the new one."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("reuse/after-drain", invariants=("I30",), source="vllm-omni#8082; article section 5.2")
def after_drain(s: Script) -> None:
    """A request is aborted while its put is in flight; after the drain its id is used again. The old
    objects are gone by then, and the new chunk 0 survives the old cleanup."""
    producer, consumer = s.pair()
    producer.admit("R")
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "abort.exit(R) < seg.write.enter(R_1_0)", blocked="I29")
    s.drain(producer)
    s.expect_no_residue("I30", "the drained abort")
    producer.admit("R")
    consumer.admit("R", generation=2)
    producer.emit("R", 4)
    producer.end("R", 4)
    consumer.consume("R")
    s.expect(
        "I30",
        len(consumer.handle("R").got.frames) == 8,
        "the new request arrives whole",
        expected="8 frames",
        found=consumer.handle("R").got.frames,
    )


@scenario("reuse/while-draining", invariants=("I30", "I32"), source="vllm-omni#8082; article section 5.2")
def while_draining(s: Script) -> None:
    """The id is used again while the aborted put of its first owner still runs. The new request is
    refused and the refusal is recorded; its data is never mixed into the old stream."""
    producer, consumer = s.pair()
    producer.admit("R")
    s.actor("talker", producer.emit, "R", 4)

    def abort_and_reuse() -> None:
        producer.abort("R")
        producer.admit("R")
        producer.emit("R", 4)
        s.mark("reused")

    s.actor("client", abort_and_reuse)
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "mark(reused) < seg.write.enter(R_1_0)", blocked="I29")
    s.drain(producer)
    refused = producer.handle("R").sent.refused
    s.expect(
        "I32",
        refused,
        "the refusal of the new request is recorded",
        expected="a send failure for the new request",
        found="none",
    )
    consumer.admit("R", generation=2)
    consumer.tick()
    s.polls(consumer, "R")
    consumer.tick()
    s.expect(
        "I30",
        not consumer.handle("R").got.frames,
        "a refused request leaves nothing on the wire",
        found=consumer.handle("R").got.frames,
    )
    consumer.abort("R")
    producer.abort("R")


@scenario("reuse/cleanup-before-new-put", invariants=("I30",), source="vllm-omni#8082; article section 5.3")
def cleanup_before_new_put(s: Script) -> None:
    """The save thread is busy with another request while R is aborted and used again. The cleanup of
    the old R stands before the new put in the queue, so the new chunk 0 survives."""
    producer, consumer = s.pair()
    for label in ("R", "B"):
        producer.admit(label)
    producer.emit("R", 4)
    s.drain(producer)
    s.actor("talker", producer.emit, "B", 4)

    def abort_and_reuse() -> None:
        producer.abort("R")
        producer.admit("R")
        producer.emit("R", 4)
        s.mark("reused")

    s.actor("client", abort_and_reuse)
    s.run_order("put.enter(B_1_0) < abort.enter(R)", "mark(reused) < seg.write.enter(B_1_0)", blocked="I29")
    s.drain(producer)
    consumer.admit("R", generation=2)
    producer.end("R")
    consumer.consume("R")
    frames = consumer.handle("R").got.frames
    s.expect(
        "I30",
        frames == [("R", 2, i) for i in range(4)],
        "the new request arrives whole",
        expected="its 4 frames",
        found=frames,
    )
    s.finish_bystander(producer, consumer, "B")


@scenario(
    "reuse/old-chunks-unread",
    invariants=("I38c",),
    weak_spots=("W20",),
    source="vllm-omni#1071; measured on 0.26.0 to 0.30.0",
)
def old_chunks_unread(s: Script) -> None:
    """A request ends normally and nobody reads its chunks. Every stage is done with it, and its id is
    used again: the new stream must never see the old chunks."""
    producer, consumer = s.pair()
    producer.admit("R")
    producer.emit("R", 4)
    producer.end("R", 4)
    s.drain(producer)
    producer.release("R")
    s.drain(producer)
    producer.admit("R")
    consumer.admit("R", generation=2)
    consumer.tick()
    s.await_point("get.exit(R_1_0)")
    producer.emit("R", 4)
    producer.end("R", 4)
    consumer.consume("R")
