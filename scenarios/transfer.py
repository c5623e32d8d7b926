"""Transfer: the plain stream, failed sends, processors that raise, shutdown and kill."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("stream/plain", invariants=("I28", "I51", "I23"), source="article section 5.9")
def plain(s: Script) -> None:
    """Twenty chunks and a terminal travel between two adapters: in order, unchanged, once; nothing
    is left, the producer's list of pending keys included."""
    chunks = s.small(20)
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")

    def send() -> None:
        for _ in range(chunks):
            producer.emit("R", 5)
        producer.end("R")

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    got = consumer.handle("R").got
    s.expect(
        "I28",
        len(got.frames) == 5 * chunks and got.finishes == 1,
        "all frames and one end arrive",
        expected=f"{5 * chunks} frames, 1 end",
        found=f"{len(got.frames)} frames, {got.finishes} ends",
    )
    s.idle_rounds(producer, 3)


@scenario("send/failed-data-put", invariants=("I36",), weak_spots=("W7", "W31"), source="vllm-omni#6033")
def failed_data_put(s: Script) -> None:
    """The put of a data chunk fails. Its frames are lost, and the stream must say so: the next chunk
    may not take its number and close the gap."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    fault = s.fail_put("R_1_1")

    def send() -> None:
        for _ in range(3):
            producer.emit("R", 4)
        producer.end("R")

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    s.expect("I36", fault.struck, "the fault struck", found=fault.struck)


@scenario("processor/raises", invariants=("I36",), weak_spots=("W26",), source="vllm-omni#5739")
def processor_raises(s: Script) -> None:
    """The processor raises on a data chunk. The loss is surfaced: the consumer never takes a
    gap-free shorter stream for the whole."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    fault = s.fault(
        "proc", "R", times=(2,), error=ValueError("injected: bad hidden state"), note="the processor raises"
    )

    def send() -> None:
        for _ in range(3):
            producer.emit("R", 4)
        producer.end("R")

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    s.expect("I36", fault.struck, "the fault struck", found=fault.struck)


@scenario(
    "processor/raises-on-terminal", invariants=("I14", "I36"), weak_spots=("W26",), source="vllm-omni#5413"
)
def processor_raises_on_terminal(s: Script) -> None:
    """The processor raises on the terminal with frames in hand: the end still arrives, and the lost
    tail is surfaced."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    fault = s.fault(
        "proc", "R", times=(2,), error=ValueError("injected: bad hidden state"), note="the processor raises"
    )

    def send() -> None:
        producer.emit("R", 4)
        producer.end("R", 3)

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    s.expect("I36", fault.struck, "the fault struck", found=fault.struck)


@scenario(
    "shutdown/put-in-flight", invariants=("I53",), weak_spots=("W10",), source="measured on 0.26.0 to 0.30.0"
)
def shutdown_put_in_flight(s: Script) -> None:
    """The stage is shut down while a put is in flight: whatever the put still creates is taken back,
    nothing is left."""
    producer = s.producer()
    producer.admit("R")
    s.pause(
        "seg.write",
        "R_1_0",
        until=lambda: s.seen_point("close.exit") or s.seen_point("shutdown.exit"),
        what="the shutdown has closed the connector",
    )
    s.actor("talker", producer.emit, "R", 4)
    s.actor("engine", producer.adapter.shutdown)
    s.run_order("put.enter(R_1_0) < shutdown.enter")
    s.require("shutdown.exit", "put.exit(R_1_0)")
    producer.handle("R").sent.aborted = True
    producer.handle("R").over = True
    s.until(lambda: not producer.adapter.save_thread.is_alive(), "the save thread has ended")
    s.expect_no_residue("I53", "a stage that was shut down during a put")
    s.audit_quiet = False


@scenario("kill/sender", invariants=("I53",), source="vllm-omni#7840; vllm-omni#1943", processes=True)
def kill_sender(s: Script) -> None:
    """The sender process is killed with chunks unread. No segment and no lock file outlives the run's
    cleanup: the surviving stage closes, and the next start finds a clean field."""

    def send(peer: Script) -> None:
        producer = peer.producer()
        producer.admit("R")
        for _ in range(3):
            producer.emit("R", 4)
        peer.drain(producer)
        peer.mark("three-chunks-sent")
        peer.until(lambda: False, "its death")

    sender = s.process("sender", send)
    s.start_processes()
    s.await_point("mark(three-chunks-sent)")
    consumer = s.consumer()
    consumer.admit("R")
    consumer.consume("R", frames=4)
    s.expect(
        "I53",
        len(s.shm()) == 4,
        "two chunks are unread when the sender dies",
        expected="2 segments, 2 lock files",
        found=s.shm(),
    )
    sender.kill()
    s.await_point("process.end(sender)")
    consumer.abort("R")
    s.audit_quiet = False


@scenario(
    "transfer/two-process",
    invariants=("I51", "I39"),
    source="vllm-omni#8082; article section 5.9",
    processes=True,
    slow=True,
)
def two_process(s: Script) -> None:
    """Two processes, five thousand requests, 15 % of them cancelled with chunks unread: no object and
    no bookkeeping is left on either side."""
    requests, cancelled = 5000, {i for i in range(5000) if i % 20 in (3, 9, 16)}

    def send(peer: Script) -> None:
        producer = peer.producer()
        for i in range(requests):
            label = f"R{i}"
            producer.admit(label)
            producer.emit(label, 2)
            if i in cancelled:
                peer.await_point(f"put.exit({label}_1_0)")
                producer.abort(label)
            else:
                producer.end(label)
            producer.handles.clear()
        peer.drain(producer)
        peer.until(
            lambda: all(_request_of(name) in cancelled for name in peer.shm()),
            "the receiver has read everything that was not cancelled",
        )
        peer.let_reap(producer)
        peer.expect_idle(producer)

    def receive(peer: Script) -> None:
        consumer = peer.consumer(max_num_seqs=64)
        whole = [i for i in range(requests) if i not in cancelled]
        for first in range(0, len(whole), 50):
            labels = [f"R{i}" for i in whole[first : first + 50]]
            handles = [consumer.admit(label) for label in labels]
            consumer.consume(*labels, settle=False)
            for label, handle in zip(labels, handles, strict=True):
                got = handle.got
                peer.expect(
                    "I51",
                    got.frames == [(label, 1, 0), (label, 1, 1)] and got.finishes == 1,
                    f"{label} arrives whole",
                    found=got.frames,
                )
            consumer.handles.clear()
        peer.expect_idle(consumer)

    s.process("sender", send, own_clock=True)
    s.process("receiver", receive, own_clock=True)
    s.start_processes()
    s.join_processes(bound_factor=12)


def _request_of(name: str) -> int:
    """Number of the request that a segment ``R7_1_0`` or its lock file belongs to."""
    return int(name.removeprefix("shm_").removeprefix("R").split("_")[0])
