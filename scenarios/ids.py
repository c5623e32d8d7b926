"""External ids: the ones that look alike, and the ones that no file system takes as a name."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script

_ODD = {
    "slash": "a/b",
    "absolute": "/a",
    "parent": "../a",
    "nul": "a\0b",
    "long": "x" * 300,
    "dots": "..",
    "dot": ".a",
    "empty": "",
    "space": "a b",
    "percent": "100%",
    "non-ascii": "请求-é",
    "dash": "-a",
    "lock-like": "shm_R_1_0_lockfile.lock",
    "200-bytes": "y" * 200,
    "just-too-long": "z" * 225,
}


@scenario(
    "ids/odd",
    invariants=("I27",),
    weak_spots=("W16",),
    source="vllm-omni#3950; conformance contract: key grammar",
)
def odd(s: Script) -> None:
    """Odd external ids, one after the other: each makes the round trip unchanged, or is refused
    cleanly with nothing left; none raises, none disturbs another."""
    writer, reader = s.connector(1), s.connector(2)
    for name, label in _ODD.items():
        key = s.key(label, 1, 0)
        result = s.attempt(writer.put, "1", "2", key, s.payload(name))
        put_ok = isinstance(result, tuple) and bool(result[0])
        if put_ok:
            got = s.attempt(reader.get, "1", "2", key)
            frames = s.frames(got) if not isinstance(got, Exception) else got
            s.expect(
                "I27",
                frames == [(name, 1, i) for i in range(4)],
                f"an id with {name} that was put is readable",
                expected="its 4 frames",
                found=frames or "None",
                key=name,
            )
        else:
            s.expect(
                "I27",
                not isinstance(result, Exception),
                f"an id with {name} is refused by a result",
                expected="(False, 0, None)",
                found=result,
                key=name,
            )
            got = s.attempt(reader.get, "1", "2", key)
            s.expect(
                "I27",
                got is None,
                f"a get of a refused id with {name} gives nothing",
                expected="None",
                found=got,
                key=name,
            )
            cleaned = s.attempt(writer.cleanup, key)
            s.expect(
                "I27",
                not isinstance(cleaned, Exception),
                f"cleanup of a refused id with {name} is harmless",
                found=cleaned,
                key=name,
            )
        left = s.everything()
        s.expect(
            "I27",
            not left,
            f"an id with {name} leaves nothing",
            expected="nothing under /dev/shm",
            found=", ".join(left),
            key=name,
        )


@scenario("ids/similar", invariants=("I21", "I51"), source="vllm-omni#8082; article section 5.4")
def similar(s: Script) -> None:
    """Abort of `task` leaves `task_1_2` alone and reclaims its own unread chunks."""
    producer, consumer = s.pair()
    for label in ("task", "task_1_2", "task_1"):
        producer.admit(label)
        producer.emit(label, 4)
    s.drain(producer)
    s.actor("client", producer.abort, "task")
    s.run()
    s.drain(producer)
    left = [n for n in s.shm() if n.startswith(("task_1_0", "shm_task_1_0_"))]
    s.expect(
        "I51",
        not left,
        "the aborted request's chunk is reclaimed",
        expected="no task_1_0",
        found=", ".join(left),
    )
    for label in ("task_1_2", "task_1"):
        consumer.admit(label)
        producer.end(label)
        consumer.consume(label)
        s.expect(
            "I21",
            len(consumer.handle(label).got.frames) == 4,
            f"the sibling {label} arrives whole",
            expected="4 frames",
            found=consumer.handle(label).got.frames,
            key=label,
        )


@scenario(
    "ids/unusable-is-reported",
    invariants=("I36",),
    weak_spots=("W16", "W31"),
    source="vllm-omni#3950; vllm-omni#6033",
)
def unusable_is_reported(s: Script) -> None:
    """A request has an external id that the transport cannot carry. Either it is carried all the
    same, or the consumer learns of the failure before any deadline; the sender's state is reclaimed."""
    producer, consumer = s.pair()
    producer.admit("a/b")
    consumer.admit("a/b")

    def send() -> None:
        producer.emit("a/b", 4)
        producer.end("a/b", 4)

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "a/b")
    s.run()
    got = consumer.handle("a/b").got
    s.expect(
        "I36",
        got.error or len(got.frames) == 8,
        "the request arrives, or its consumer learns that it cannot",
        expected="8 frames or an error",
        found=f"{len(got.frames)} frames, no error",
    )
