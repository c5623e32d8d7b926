"""Segments: several turns of one session share an id, a sequence of chunks, and nothing else."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _turn(
    s: Script, producer: Stage, chunks: int, *, last: int = 0, counted: bool = True, settle: bool = True
) -> None:
    """Speak one segment of R: `chunks` chunks of 3 frames, then the boundary with `last` frames, all sent.

    The next segment counts its tokens from 0 again, as a session scheduler does; `counted` says
    whether the request carries the number of its segment.
    """
    request = producer.handle("R").request
    if counted:
        request._omni_segment_generation = getattr(request, "_omni_segment_generation", 0)
    for _ in range(chunks):
        producer.emit("R", 3)
    producer.emit("R", last, segment_end=True)
    if settle:
        s.drain(producer)
    request.num_computed_tokens = 0
    if counted:
        request._omni_segment_generation += 1


def _session(s: Script) -> tuple[Stage, Stage]:
    producer, consumer = s.pair()
    producer.admit("R", resumable=True)
    consumer.admit("R", resumable=True)
    return producer, consumer


def _close(s: Script, producer: Stage, consumer: Stage, frames: int, turns: int) -> None:
    """End the session and judge that every frame and every boundary arrived, once."""
    producer.handle("R").request.resumable = False
    producer.end("R")
    consumer.consume("R")
    got = consumer.handle("R").got
    s.expect(
        "I13",
        got.frames == [("R", 1, i) for i in range(frames)],
        "every frame of every turn arrives, once, in order",
        expected=f"{frames} frames",
        found=f"{len(got.frames)}: {[f[1:] for f in got.frames]}",
        key="R",
    )
    s.expect("I14", got.finishes == 1, "the session ends once", found=got.finishes, key="R")
    s.expect(
        "I14", got.boundaries == turns, "every turn ends", expected=str(turns), found=got.boundaries, key="R"
    )


@scenario("segments/three-turns", invariants=("I13", "I14"), source="vllm-omni#6529; vllm-omni#5383")
def three_turns(s: Script) -> None:
    """Three turns of one session: a boundary with frames of its own, one without, one after a turn that
    said nothing else. Frames and boundaries arrive once, in order."""
    producer, consumer = _session(s)
    _turn(s, producer, 2, last=2)
    _turn(s, producer, 3)
    _turn(s, producer, 0, last=1)
    _close(s, producer, consumer, 2 * 3 + 2 + 9 + 1, 3)


@scenario("segments/read-between-turns", invariants=("I13", "I14"), source="vllm-omni#6529; vllm-omni#5414")
def read_between_turns(s: Script) -> None:
    """The consumer has read a whole turn before the next begins: the boundary stops no later turn."""
    producer, consumer = _session(s)
    for turn in range(3):
        _turn(s, producer, 2, last=1)
        consumer.consume("R", frames=7 * (turn + 1))
    _close(s, producer, consumer, 21, 3)


@scenario("segments/unmaintained-counter", invariants=("I13",), source="vllm-omni#6816; vllm-omni#6834")
def unmaintained_counter(s: Script) -> None:
    """The requests of this session carry no segment number. A boundary may not raise the threshold to
    a number that the producer never reaches: the turns after the first would be dropped as late."""
    producer, consumer = _session(s)
    for _ in range(3):
        _turn(s, producer, 2, last=1, counted=False)
    _close(s, producer, consumer, 21, 3)


@scenario("segments/late-old-frame", invariants=("I13",), source="vllm-omni#6529; vllm-omni#6834")
def late_old_frame(s: Script) -> None:
    """An output of the first turn comes after its boundary. It is dropped, and it does not bring back
    the watermark of its turn, which would make the first outputs of the second look like replays."""
    producer, consumer = _session(s)
    _turn(s, producer, 2)
    request = producer.handle("R").request
    request._omni_segment_generation = 0
    producer.hand_over("R", 90, 3, computed=50, generation=7)
    request._omni_segment_generation, request.num_computed_tokens = 1, 0
    _turn(s, producer, 2)
    _close(s, producer, consumer, 12, 2)


@scenario("segments/reset-with-enqueue", invariants=("I13",), source="vllm-omni#5674")
def reset_with_enqueue(s: Script) -> None:
    """The save thread is busy elsewhere while a turn ends and the next one speaks, with small token
    counts again. The watermark falls when the boundary is queued, not when it is sent: no output of
    the second turn is taken for a replay."""
    producer, consumer = _session(s)
    producer.admit("B")

    def speak() -> None:
        producer.emit("B", 4)
        s.await_point("put.enter(B_1_0)")
        _turn(s, producer, 4, settle=False)
        _turn(s, producer, 1, settle=False)
        s.mark("spoken")

    s.actor("session", speak)
    s.run_order("put.enter(B_1_0) < mark(spoken) < put.exit(B_1_0)", blocked="I29")
    _close(s, producer, consumer, 15, 2)
    s.finish_bystander(producer, consumer, "B")


@scenario("segments/abort-in-second-turn", invariants=("I51", "I39"), source="vllm-omni#6889; vllm-omni#8082")
def abort_in_second_turn(s: Script) -> None:
    """The client leaves in the second turn. One session is one sequence of chunks: everything unread of
    both turns is reclaimed."""
    producer, consumer = _session(s)
    _turn(s, producer, 2)
    consumer.consume("R", frames=3)
    producer.emit("R", 3)
    s.drain(producer)
    s.actor("client", lambda: (consumer.abort("R"), producer.abort("R")))
    s.run()
