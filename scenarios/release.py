"""Release: every stage is done with a request, and what nobody will read is given back, no more."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage

_SIBLINGS = ("task_1", "task_1_2", "task1", "1_task", "task_", "task_0", "task_1_0")


def _expect_whole(s: Script, consumer: Stage, label: str, invariant: str, frames: int) -> None:
    got = consumer.handle(label).got
    s.expect(
        invariant,
        len(got.frames) == frames and got.finishes == 1,
        f"{label} arrives whole",
        expected=f"{frames} frames and the end",
        found=f"{len(got.frames)} frames, {got.finishes} ends, {got.error or 'no error'}",
        key=label,
    )


@scenario(
    "release/exact-keys",
    invariants=("I50", "I21"),
    source="vllm-omni#8082; article section 5.4",
    needs=("release",),
)
def exact_keys(s: Script) -> None:
    """A request whose id begins or ends like others' is released with chunks unread. Its own keys go,
    every sibling arrives whole."""
    producer, consumer = s.pair()
    for label in ("task", *_SIBLINGS):
        producer.admit(label)
        producer.emit(label, 2)
        producer.end(label, 1)
    s.drain(producer)
    s.actor("orchestrator", producer.release, "task")
    s.run()
    s.drain(producer)
    left = [n for n in s.shm() if n in ("task_1_0", "task_1_1")]
    s.expect("I50", not left, "the released request's chunks are gone", found=", ".join(left), key="task")
    for label in _SIBLINGS:
        consumer.admit(label)
        consumer.consume(label)
        _expect_whole(s, consumer, label, "I21", 3)


@scenario("release/too-early", invariants=("I50", "I33"), source="article section 5.5", needs=("release",))
def too_early(s: Script) -> None:
    """A release comes while the producer still sends, and again while its terminal waits behind a put.
    A live stream is not done: its consumer gets everything."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")

    def send() -> None:
        producer.emit("R", 4)
        s.await_point("put.enter(R_1_0)")
        producer.release("R")
        producer.emit("R", 4)
        producer.release("R")
        s.mark("released")
        producer.end("R", 1)

    s.actor("talker", send)
    s.run_order("put.enter(R_1_0) < mark(released) < put.exit(R_1_0)", blocked="I29")
    consumer.consume("R")
    _expect_whole(s, consumer, "R", "I50", 9)


@scenario(
    "release/newer-stream",
    invariants=("I50", "I30"),
    weak_spots=("W9",),
    source="vllm-omni#8082; read in the adapter",
    needs=("release",),
)
def newer_stream(s: Script) -> None:
    """The release of an ended request comes late, when its id has been used again and the new stream
    has chunks unread. The keys do not tell the streams apart, so the release must: it takes nothing new."""
    producer, consumer = s.pair()
    first = producer.admit("R")
    producer.emit("R", 4)
    producer.end("R")
    consumer.admit("R")
    consumer.consume("R")
    s.drain(producer)
    producer.admit("R")
    producer.emit("R", 4)
    s.drain(producer)
    s.actor("orchestrator", producer.release, first)
    s.run()
    s.drain(producer)
    producer.end("R", 2)
    consumer.admit("R")
    consumer.consume("R")
    _expect_whole(s, consumer, "R", "I30", 6)


@scenario(
    "release/before-new-put",
    invariants=("I50", "I32", "I38c"),
    weak_spots=("W9", "W20"),
    source="vllm-omni#8082",
    needs=("release",),
)
def before_new_put(s: Script) -> None:
    """The release of an unread request waits behind another request's put when the id is used again.
    The new request is refused on record, or it arrives whole: its chunks are not taken for old ones."""
    producer, consumer = s.pair()
    for label in ("B", "R"):
        producer.admit(label)
    producer.emit("R", 4)
    producer.end("R")
    s.drain(producer)

    def release_and_reuse() -> None:
        producer.emit("B", 4)
        s.await_point("put.enter(B_1_0)")
        producer.release("R")
        producer.admit("R")
        producer.emit("R", 4)
        producer.end("R", 1)
        s.mark("reused")

    s.actor("orchestrator", release_and_reuse)
    s.run_order("put.enter(B_1_0) < mark(reused) < put.exit(B_1_0)", blocked="I29")
    s.drain(producer)
    if not producer.handle("R").sent.refused:
        consumer.admit("R", generation=2)
        consumer.consume("R")
        _expect_whole(s, consumer, "R", "I38c", 5)
    else:
        left = [n for n in s.shm() if "R_1_" in n]
        s.expect("I32", not left, "a refused request leaves nothing", found=", ".join(left), key="R")
        producer.abort("R")
    s.finish_bystander(producer, consumer, "B")


@scenario(
    "release/put-in-flight",
    invariants=("I50", "I51"),
    source="vllm-omni#8082; article section 5.9",
    needs=("release",),
)
def put_in_flight(s: Script) -> None:
    """A request is aborted and released while its put is being written: when the put comes back, both
    are done, and nothing is left."""
    producer = s.producer()
    producer.admit("R")

    def leave() -> None:
        producer.emit("R", 4)
        s.await_point("put.enter(R_1_0)")
        producer.abort("R")
        producer.release("R")
        s.mark("released")

    s.actor("client", leave)
    s.run_order("put.enter(R_1_0) < mark(released) < put.exit(R_1_0)", blocked="I29")
    s.drain(producer)
    s.expect_no_residue("I50", "an abort and a release during a put")


@scenario(
    "release/terminal-in-flight",
    invariants=("I50", "I51"),
    weak_spots=("W19",),
    source="vllm-omni#4349",
    needs=("release",),
)
def terminal_in_flight(s: Script) -> None:
    """The consumer has stopped early, and its producer's terminal is being written when the release
    comes: nobody will read the terminal, so it is given back as well, with the chunks before it."""
    producer = s.producer()
    producer.admit("R")
    producer.emit("R", 4)

    def end_and_release() -> None:
        producer.end("R", 4)
        s.await_point("put.enter(R_1_1)")
        producer.abort("R")
        producer.release("R")
        s.mark("released")

    s.actor("orchestrator", end_and_release)
    s.run_order("put.enter(R_1_1) < mark(released) < put.exit(R_1_1)", blocked="I29")
    s.drain(producer)
    s.expect_no_residue("I50", "a release during the terminal's put")


@scenario(
    "release/text-only",
    invariants=("I50", "I51"),
    weak_spots=("W19",),
    source="vllm-omni#7245",
    needs=("release",),
)
def text_only(s: Script) -> None:
    """The request wants no audio: this stage is its last. No stage will read a terminal, so none is
    put, or the release gives it back."""
    producer = s.producer()
    handle = producer.admit("R")
    handle.request.final_stage_id = producer.stage_id
    producer.emit("R", 4)
    producer.end("R", 1)
    s.drain(producer)
    s.actor("orchestrator", producer.release, "R")
    s.run()
    s.drain(producer)
    s.expect_no_residue("I50", "a request without a next stage")


@scenario(
    "release/late-cleanup-keeps-terminal", invariants=("I33",), source="vllm-omni#4349; article section 5.5"
)
def late_cleanup_keeps_terminal(s: Script) -> None:
    """The terminal was sent and the sender has retired; then its own late cleanups come, once from the
    engine and once from the finish verb of a neighbour. A slow consumer still gets all of it."""
    producer, consumer = s.pair()
    producer.admit("N")
    handle = producer.admit("R")
    producer.emit("R", 4)
    producer.end("R", 1)
    s.drain(producer)
    producer.adapter.cleanup_sender(handle.external)
    producer.adapter.cleanup(handle.internal, handle.external)
    producer.abort("N")
    s.drain(producer)
    consumer.admit("R")
    consumer.consume("R")
    _expect_whole(s, consumer, "R", "I33", 5)
