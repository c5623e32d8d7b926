"""Abort: the scheduler has forgotten the request, the save thread may not have."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("abort/before-first-put", invariants=("I39",), source="vllm-omni#6352")
def before_first_put(s: Script) -> None:
    """The client leaves while frames are only accumulated: no chunk was ever due, yet the sender
    holds the frames, a counter and a watermark. All of it must go."""
    producer = s.producer(chunk=4)
    producer.admit("R")
    producer.emit("R", 3)
    s.drain(producer)
    s.expect(
        "I39",
        producer.adapter.code_prompt_token_ids,
        "the sender holds the accumulated frames",
        found="nothing was held",
    )
    s.actor("client", producer.abort, "R")
    s.run()


@scenario("abort/processor-running", invariants=("I31", "I51"), source="vllm-omni#8082")
def processor_running(s: Script) -> None:
    """One chunk is unread and the processor builds the next one when the client leaves: the cancelled
    chunk is not put, or it is reclaimed, and the chunk before it is reclaimed too."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)
    s.drain(producer)
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("proc.enter(R)#2 < abort.enter(R)", "abort.exit(R) < proc.exit(R)#2", blocked="I29")


@scenario("abort/put-created", invariants=("I29", "I31", "I51"), source="vllm-omni#8082; article section 5.3")
def put_created(s: Script) -> None:
    """The client leaves when the segment of the first chunk exists but its put has not returned:
    the abort returns first, and nothing of R is left once the put has returned."""
    producer = s.producer()
    producer.admit("R")
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("seg.write.exit(R_1_0) < abort.enter(R)", "abort.exit(R) < put.exit(R_1_0)", blocked="I29")


@scenario(
    "abort/put-in-flight", invariants=("I29", "I31", "I51"), source="vllm-omni#8082; article section 5.8"
)
def put_in_flight(s: Script) -> None:
    """The client leaves while the first chunk is being written, before its segment exists. The
    abort must not wait for the put, and the put that ends afterwards must leave nothing."""
    producer = s.producer()
    producer.admit("R")
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "abort.exit(R) < seg.write.enter(R_1_0)", blocked="I29")


@scenario("abort/receiver-first", invariants=("I51",), source="vllm-omni#8082; article section 5.9")
def receiver_first(s: Script) -> None:
    """The consumer stage is told first: it drops the request with chunks unread while the producer
    still sends; then the producer is told. Every chunk is reclaimed by one of the two."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    consumer.tick()
    producer.emit("R", 4)
    consumer.consume("R", frames=4)

    def abort_in_stage_order() -> None:
        consumer.abort("R")
        s.mark("consumer-told")
        s.await_point("put.exit(R_1_2)")
        producer.abort("R")

    def keep_sending() -> None:
        producer.emit("R", 4)
        producer.emit("R", 4)

    s.actor("talker", keep_sending)
    s.actor("client", abort_in_stage_order)
    s.run_order("mark(consumer-told) < put.enter(R_1_1)")


@scenario(
    "abort/third-party-connector",
    invariants=("I51",),
    weak_spots=("W17",),
    source="read in the adapter: reclaim by class of the connector",
)
def third_party_connector(s: Script) -> None:
    """The stage uses a connector that is not the shipped class. Its unread chunks are cleaned on
    abort all the same: any connector with an exact cleanup can reclaim."""
    store = s.register_third_party("ThirdPartyConnector")
    producer = s.producer(connector="ThirdPartyConnector")
    producer.admit("R")
    producer.emit("R", 4)
    producer.emit("R", 4)
    s.drain(producer)
    s.expect(
        "I51",
        len(store.objects) == 2,
        "two chunks are in the store before the abort",
        found=sorted(store.objects),
    )
    s.actor("client", producer.abort, "R")
    s.run()
    s.drain(producer)
    s.expect(
        "I51",
        not store.objects,
        "an aborted request leaves chunks in a third-party store",
        expected="cleanup of every key that was put",
        found=", ".join(sorted(store.objects)),
        key="third-party",
    )


@scenario(
    "abort/put-raises-afterwards", invariants=("I31", "I51"), source="vllm-omni#8082; article section 5.5"
)
def put_raises_after_abort(s: Script) -> None:
    """The client leaves while the first chunk is written, and then the put creates its segment and raises.
    The key belongs to the cancelled range although its put never succeeded: nothing is left."""
    producer = s.producer()
    producer.admit("R")
    fault = s.fail_put("R_1_0", created=True, raises=True)
    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", producer.abort, "R")
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "abort.exit(R) < seg.write.enter(R_1_0)", blocked="I29")
    s.drain(producer)
    s.expect("I31", fault.struck, "the fault struck", found=fault.struck)
