"""Active stream window: how many streams may receive at once, and who is next."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _streams(s: Script, window: int, labels: str) -> tuple[Stage, Stage]:
    """Build a pair with a window and streams that each have one chunk of 4 frames on the way."""
    producer, consumer = s.producer(), s.consumer(active_stream_window=window)
    for label in labels:
        producer.admit(label)
        producer.emit(label, 4)
        consumer.admit(label)
    s.drain(producer)
    return producer, consumer


def _polled(s: Script) -> list[str]:
    """External ids that were polled so far, in order."""
    return list(dict.fromkeys(e.key.rsplit("_", 2)[0] for e in s.runtime.trace if e.point == "get.enter"))


def _expect_alone(s: Script, consumer: Stage, active: str, others: str, moment: str) -> None:
    frames = {h.label: len(h.got.frames) for h in consumer.handles}
    s.expect(
        "I43",
        frames[active],
        f"{moment}: the stream in the window runs",
        expected=f"frames of {active}",
        found=frames,
    )
    s.expect(
        "I9", not any(frames[o] for o in others), f"{moment}: no stream outside the window runs", found=frames
    )
    queued = [r.external_req_id for r in [*consumer.waiting, *consumer.running]]
    live = [h.external for h in consumer.handles if not h.over]
    s.expect(
        "I44",
        sorted(queued) == sorted(live),
        f"{moment}: every live stream is in a queue, once",
        found=queued,
    )


@scenario(
    "window/one-at-a-time",
    invariants=("I9", "I43", "I44"),
    source="vllm-omni#5373; vllm-omni#5349",
    needs=("active_stream_window",),
)
def one_at_a_time(s: Script) -> None:
    """A window of one and three streams that all have data. Only the first is polled and runs; when
    it finishes the second gets the place, when that is aborted the third: a place that is not given
    back would starve the rest."""
    producer, consumer = _streams(s, 1, "ABC")
    consumer.consume("A", frames=4)
    consumer.tick()
    _expect_alone(s, consumer, "A", "BC", "while A is in the window")
    s.expect("I9", _polled(s) == ["A"], "a stream outside the window is not polled", found=_polled(s))
    producer.end("A")
    consumer.consume("A")
    consumer.consume("B", frames=4)
    _expect_alone(s, consumer, "B", "C", "after A has finished")
    consumer.abort("B")
    producer.abort("B")
    producer.end("C")
    consumer.consume("C")
    _expect_alone(s, consumer, "C", "", "after B was aborted")
    s.expect(
        "I39",
        not consumer.adapter._active_streams,
        "no place is taken at the end",
        found=consumer.adapter._active_streams,
    )


@scenario(
    "window/upstream-end-keeps-place",
    invariants=("I47", "I43"),
    source="vllm-omni#5349; vllm-omni#5373",
    needs=("active_stream_window",),
)
def upstream_end_keeps_place(s: Script) -> None:
    """The upstream of the stream in the window has ended, and its last chunks have not run yet. That
    is no end of this stage's work: it keeps its place until all of them have run."""
    producer, consumer = _streams(s, 1, "AB")
    for _ in range(3):
        producer.emit("A", 4)
    producer.end("A", 2)
    s.drain(producer)
    consumer.consume("A", frames=4)
    _expect_alone(s, consumer, "A", "B", "after the upstream of A has ended")
    consumer.consume("A")
    frames = len(consumer.handle("A").got.frames)
    s.expect("I47", frames == 18, "every chunk of A runs", expected="18 frames", found=frames)
    producer.end("B")
    consumer.consume("B")


@scenario(
    "window/completions",
    invariants=("I39", "I43"),
    source="vllm-omni#5349",
    needs=("active_stream_window",),
)
def completions(s: Script) -> None:
    """More streams than the window finish normally, one after the other: a window of two serves six
    streams, and in the end no place is taken."""
    labels = "ABCDEF"[: s.small(6)]
    producer, consumer = _streams(s, 2, labels)
    for label in labels:
        producer.end(label, 1)
    consumer.consume()
    frames = {h.label: len(h.got.frames) for h in consumer.handles}
    s.expect(
        "I43", set(frames.values()) == {5}, "every stream is served", expected="5 frames each", found=frames
    )
    s.expect(
        "I39",
        not consumer.adapter._active_streams,
        "no place is taken at the end",
        found=consumer.adapter._active_streams,
    )
