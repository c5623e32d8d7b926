"""Admission: which chunk joins which stream, and which one is refused and recorded."""

from omni_verify.faults.nemesis import Injected
from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _arrives(s: Script, producer: Stage, consumer: Stage, label: str, invariant: str, frames: int) -> None:
    """Consume a stream to its end and judge that it came whole, from the newest request of its id."""
    generation = producer.handle(label).sent.generation
    got = consumer.admit(label, generation=generation).got
    consumer.consume(label)
    wanted = [(label, generation, i) for i in range(frames)]
    s.expect(
        invariant,
        got.frames == wanted and got.finishes == 1,
        f"{label} arrives whole",
        expected=f"{frames} frames and the end",
        found=f"{got.frames}, {got.finishes} ends, {got.error or 'no error'}",
        key=label,
    )


@scenario("admission/second-reuse", invariants=("I30", "I32"), source="vllm-omni#8082; article section 5.2")
def second_reuse(s: Script) -> None:
    """An id is used again, and a third time, while the aborted put of its first owner runs. Both are
    refused and recorded; the fourth, after the drain, arrives whole."""
    producer, consumer = s.pair()
    producer.admit("R")

    def reuse_twice() -> None:
        producer.emit("R", 4)
        s.await_point("put.enter(R_1_0)")
        producer.abort("R")
        for _ in range(2):
            handle = producer.admit("R")
            producer.emit("R", 4)
            refused = handle.sent.refused
            s.expect("I32", refused, "a request of a draining id is refused on record", found="no record")
            producer.abort("R")
        s.mark("reused")

    s.actor("client", reuse_twice)
    s.run_order("put.enter(R_1_0) < mark(reused) < put.exit(R_1_0)", blocked="I29")
    s.drain(producer)
    s.expect_no_residue("I30", "two refused requests and an aborted one")
    producer.admit("R")
    producer.emit("R", 4)
    producer.end("R")
    _arrives(s, producer, consumer, "R", "I30", 4)


@scenario("admission/three-queued", invariants=("I30",), source="vllm-omni#8082; article section 5.3")
def three_queued(s: Script) -> None:
    """Behind another request's put wait, in this order: two puts of R, the cleanup of R, the puts of a
    new R. They happen in that order: the old puts do not come later, the cleanup takes nothing new."""
    producer, consumer = s.pair()
    for label in ("B", "R"):
        producer.admit(label)
    producer.emit("R", 4)
    s.drain(producer)

    def in_turn_or_too_late() -> bool:
        # The save thread has its turn now; anybody else, who was first, may be as late as a thread can be.
        first = not s.seen_point("cleanup.enter(R_1_0)#2")
        turn = first and s.seen_point("producer.save:cleanup.enter(R_1_0)")
        return turn or s.seen_point("put.exit(R_1_0)#2")

    s.pause("cleanup", "R_1_0", until=in_turn_or_too_late, what="the save thread's turn, or the new put")

    def queue_all() -> None:
        producer.emit("B", 4)
        s.await_point("put.enter(B_1_0)")
        producer.emit("R", 4)
        producer.emit("R", 4)
        producer.abort("R")
        again = producer.admit("R")
        for _ in range(2):
            producer.emit("R", 4)
        if again.sent.refused:  # in another order a put of the old R runs: its scheduler ends the new one
            producer.abort("R")
        else:
            producer.end("R")
        s.mark("queued")

    s.actor("scheduler", queue_all)
    s.run_order("put.enter(B_1_0) < mark(queued) < put.exit(B_1_0)", blocked="I29")
    s.drain(producer)
    if not producer.handle("R").sent.aborted:
        s.until(
            lambda: not s.seen_point("cleanup.enter(R_1_0)") or s.seen_point("cleanup.exit(R_1_0)"),
            "the cleanup of the old R is done",
        )
    _arrives(s, producer, consumer, "R", "I30", 8)
    s.finish_bystander(producer, consumer, "B")


@scenario(
    "admission/save-after-abort",
    invariants=("I32", "I51"),
    weak_spots=("W25",),
    source="measured on 0.26.0 to 0.30.0",
)
def save_after_abort(s: Script) -> None:
    """The output of one more step comes after the abort of its request. It starts no new stream: it is
    refused on record, and nothing of it stays."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)
    s.drain(producer)
    s.actor("client", producer.abort, "R")
    s.run()
    s.drain(producer)
    producer.hand_over("R", 4, 4, computed=8)
    s.drain(producer)
    s.expect(
        "I32", producer.handle("R").sent.refused, "a late output is refused on record", found="no record"
    )
    s.expect_no_residue("I51", "an output that came after the abort")


@scenario(
    "admission/save-after-end",
    invariants=("I32", "I33", "I51"),
    weak_spots=("W25",),
    source="measured on 0.26.0 to 0.30.0",
)
def save_after_end(s: Script) -> None:
    """The output of one more step comes after the terminal was sent and everything was consumed. It is
    refused on record, and leaves no chunk that nobody will read."""
    producer, consumer = s.pair()
    producer.admit("R")
    producer.emit("R", 4)
    producer.end("R")
    _arrives(s, producer, consumer, "R", "I33", 4)
    s.drain(producer)
    producer.hand_over("R", 4, 4, computed=16)
    s.drain(producer)
    s.expect(
        "I32", producer.handle("R").sent.refused, "a late output is refused on record", found="no record"
    )
    s.expect_no_residue("I51", "an output that came after the end")


@scenario("admission/preemption-replay", invariants=("I28",), source="vllm-omni#5413; article section 5.2")
def preemption_replay(s: Script) -> None:
    """The scheduler preempts a request and computes its last steps again. What was sent is not sent
    twice, and the chunks after it keep their numbers without a gap."""
    producer, consumer = s.pair()
    producer.admit("R")
    for _ in range(3):
        producer.emit("R", 4)
    s.drain(producer)
    for first in (4, 8):
        producer.hand_over("R", first, 4, computed=first)
    producer.handle("R").request.num_computed_tokens = 12
    producer.emit("R", 4)
    producer.end("R")
    _arrives(s, producer, consumer, "R", "I28", 16)


@scenario("admission/slow-consumer", invariants=("I28",), source="vllm-omni connector: a name that exists")
def slow_consumer(s: Script) -> None:
    """Nobody reads until the last chunk is put. Every chunk has a number of its own, so that none is
    replaced while it is unread."""
    producer, consumer = s.pair()
    producer.admit("R")
    for _ in range(6):
        producer.emit("R", 3)
    producer.end("R", 1)
    s.drain(producer)
    segments = [n for n in s.shm() if not n.startswith("shm_")]
    s.expect("I28", len(segments) == 7, "seven chunks are unread", expected="R_1_0 to R_1_6", found=segments)
    _arrives(s, producer, consumer, "R", "I28", 19)


@scenario("admission/fence-on-every-exit", invariants=("I34", "I39"), source="vllm-omni#6670; vllm-omni#6889")
def fence_on_every_exit(s: Script) -> None:
    """Terminals wait in the queue when their requests are cleaned up. One is sent, the put of another
    returns False, of a third raises, the processor of a fourth raises: each way the sender's state is
    given back, and the first arrives."""
    producer, consumer = s.pair()
    labels = ("sent", "refused", "raised", "unmade")
    for label in ("B", *labels):
        producer.admit(label)
    faults = [
        s.fail_put("refused_1_0"),
        s.fail_put("raised_1_0", raises=True),
        s.fault("proc", "unmade", error=Injected("injected: bad hidden state"), note="the processor raises"),
    ]

    def end_all() -> None:
        producer.emit("B", 4)
        s.await_point("put.enter(B_1_0)")
        for label in labels:
            producer.end(label, 4)
            handle = producer.handle(label)
            producer.adapter.cleanup(handle.internal, handle.external)
        s.mark("cleaned")

    s.actor("scheduler", end_all)
    s.run_order("put.enter(B_1_0) < mark(cleaned) < put.exit(B_1_0)", blocked="I29")
    s.drain(producer)
    s.expect(
        "I34",
        [f.struck for f in faults] == [1, 1, 1],
        "every terminal gets its turn",
        found=[f.struck for f in faults],
    )
    _arrives(s, producer, consumer, "sent", "I34", 4)
    s.finish_bystander(producer, consumer, "B")

    def kept() -> list[str]:
        entries = [x for label in labels for x in s.leftovers(label, producer)]
        return [f"{x.container}: {x.entry}" for x in entries if x.container in _SENDER]

    # A failed stream may be kept for a while, for its consumer to read why it ended.
    for _ in range(_ROUNDS):
        if not kept():
            break
        s.idle_rounds(producer, 1)
    s.expect("I34", not kept(), "the sender gives the state of every request back", found="; ".join(kept()))
    for label in labels[1:]:
        producer.abort(label)


_ROUNDS = 50
_SENDER = (
    "put_req_chunk",
    "_sender_tokens",
    "code_prompt_token_ids",
    "requests_num_chunks_sent",
    "request_payload",
)
