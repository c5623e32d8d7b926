"""Cleanup, close, undecodable bytes and the reaping of consumed keys."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script

_SIBLINGS = (
    "task",
    "task_1",
    "task_1_2",
    "task_1_2_3",
    "task1",
    "1_task",
    "task_",
    "_task",
    "task__1",
    "task_0",
    "task_1_0",
    "x_task",
    "task_1_0_5",
)


def _put_all(s: Script, connector: object, keys: list[str]) -> None:
    for label, key in zip(_SIBLINGS, keys, strict=False):
        done = connector.put(from_stage="1", to_stage="2", put_key=key, data=s.payload(label))  # type: ignore[attr-defined]
        s.expect("I21", done[0], f"put of {label}", found=done)


@scenario("cleanup/exact-key", invariants=("I21",), source="vllm-omni#8082; article section 5.4")
def exact_key(s: Script) -> None:
    """Many ids resemble each other by prefix and suffix. Cleanup of one key removes that key and
    every sibling stays readable; the raw id is no key and removes nothing."""
    writer, reader = s.connector(1), s.connector(2)
    keys = [s.key(label, 1, 0) for label in _SIBLINGS]
    _put_all(s, writer, keys)
    victim = s.key("task", 1, 0)
    writer.cleanup(victim)
    writer.cleanup(s.external("task"))
    s.expect("I21", reader.get("1", "2", victim) is None, "the cleaned key is gone", key="task")
    for label, key in zip(_SIBLINGS, keys, strict=True):
        if label != "task":
            frames = s.frames(reader.get("1", "2", key))
            s.expect(
                "I21",
                len(frames) == 4,
                f"sibling {label} stays readable",
                expected="4 frames",
                found=frames or "None",
                key=label,
            )


@scenario("close/idempotent", invariants=("I22",), source="conformance contract; vllm-omni#4349")
def close_idempotent(s: Script) -> None:
    """Close with unread keys reclaims each of them with its lock file, and may be called again;
    cleanup of unknown keys is harmless."""
    connector = s.connector(1)
    for chunk in range(3):
        connector.put(from_stage="1", to_stage="2", put_key=s.key("R", 1, chunk), data=s.payload())
    s.expect("I22", len(s.shm()) == 6, "three segments and three lock files exist", found=s.shm())
    for _ in range(2):
        connector.close()
        connector.cleanup(s.key("unknown", 1, 0))
        connector.cleanup(s.key("R", 1, 0))
        s.expect_no_residue("I22", "close")


@scenario("deserialize/leaves-nothing", invariants=("I20",), source="vllm-omni#8082")
def undecodable_leaves_nothing(s: Script) -> None:
    """The bytes of a value cannot be decoded. They were read, so segment and lock file are gone:
    consumption is decided by bytes read, not by an object decoded."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    fault = s.fault("ser", value=lambda _: b"\xc1not a payload", note="undecodable bytes")
    writer.put(from_stage="1", to_stage="2", put_key=key, data=s.payload())
    s.expect("I20", fault.struck, "the fault struck", found=fault.struck)
    result = s.attempt(reader.get, "1", "2", key)
    s.expect(
        "I20",
        result is None or isinstance(result, Exception),
        "undecodable bytes give no object",
        found=result,
    )
    s.expect_no_residue("I20", "a value that could not be decoded")


@scenario("deserialize/is-reported", invariants=("I46",), weak_spots=("W8",), source="vllm-omni#4855")
def undecodable_is_reported(s: Script) -> None:
    """The bytes of a chunk cannot be decoded. The chunk is gone for good, so the request fails at
    once instead of polling for it until its deadline."""
    producer, consumer = s.pair()
    fault = s.fault("ser", value=lambda _: b"\xc1not a payload", note="undecodable bytes")
    producer.admit("R")
    consumer.admit("R")

    def send() -> None:
        producer.emit("R", 4)
        producer.end("R", 4)

    s.actor("talker", send)
    s.actor("code2wav", consumer.consume, "R")
    s.run()
    s.expect("I46", fault.struck, "the fault struck", found=fault.struck)


@scenario("reap/rotation", invariants=("I23",), source="vllm-omni#8082; article section 5.7")
def reap_rotation(s: Script) -> None:
    """One hundred unread keys stand before one that was consumed elsewhere. The bounded scan must
    rotate, so that the consumed key is found and no unread one is forgotten."""
    writer, reader = s.connector(1), s.connector(2)
    for chunk in range(101):
        writer.put(from_stage="1", to_stage="2", put_key=s.key("R", 1, chunk), data=s.payload(frames=1))
    last = s.key("R", 1, 100)
    s.expect("I23", reader.get("1", "2", last) is not None, "the last key was consumed elsewhere")
    for _ in range(2):
        s.attempt(getattr(writer, "reap_consumed", lambda: None))
    pending = set(writer._pending_keys)
    s.expect(
        "I23",
        last not in pending,
        "the consumed key is forgotten within two scans of 64",
        found="still tracked",
    )
    unread = {s.key("R", 1, chunk) for chunk in range(100)}
    s.expect(
        "I23", pending >= unread, "no unread key is forgotten", found=f"{len(unread - pending)} forgotten"
    )
    writer.close()


@scenario("reap/idle-loop", invariants=("I23",), source="vllm-omni#8082; article section 5.7")
def reap_idle_loop(s: Script) -> None:
    """The last chunks were consumed in another process and the producer sends nothing more: its idle
    save loop forgets the keys all the same."""
    producer = s.producer()
    reader = s.connector(2)
    producer.admit("R")
    producer.emit("R", 4)
    producer.emit("R", 4)
    s.drain(producer)
    for chunk in range(2):
        s.expect(
            "I23",
            reader.get("1", "2", s.key("R", 1, chunk)) is not None,
            f"chunk {chunk} was consumed elsewhere",
        )
    s.idle_rounds(producer, 3)
    pending = [k.removeprefix(s.prefix) for k in producer.connector._pending_keys]
    s.expect(
        "I23",
        not pending,
        "an idle producer forgets consumed keys",
        expected="no pending key",
        found=", ".join(pending),
    )
    producer.abort("R")


@scenario("threads/distinct-keys", invariants=("I26", "I51"), source="conformance contract: threads")
def distinct_keys(s: Script) -> None:
    """Put, get, cleanup and reap run from four threads on distinct keys: no exception, no residue."""
    writer, reader = s.connector(1), s.connector(2)
    rounds = s.small(40, 2)

    def put_own() -> None:
        for i in range(rounds):
            done = writer.put(
                from_stage="1", to_stage="2", put_key=s.key("A", 1, i), data=s.payload("A", frames=1)
            )
            s.expect("I26", done[0], f"put A_1_{i}", found=done)
            writer.put(from_stage="1", to_stage="2", put_key=s.key("B", 1, i), data=s.payload("B", frames=1))

    def read_own() -> None:
        for i in range(rounds):
            s.await_point(f"put.exit(A_1_{i})")
            s.expect(
                "I26", s.frames(s.get(reader, s.key("A", 1, i))) == [("A", 1, 0)], f"A_1_{i} is readable"
            )

    def clean_own() -> None:
        for i in range(rounds):
            s.await_point(f"put.exit(B_1_{i})")
            writer.cleanup(s.key("B", 1, i))

    def reap() -> None:
        for _ in range(rounds):
            writer.reap_consumed()

    for name, body in (("writer", put_own), ("reader", read_own), ("cleaner", clean_own), ("reaper", reap)):
        s.actor(name, body)
    s.run()
    s.expect_no_residue("I51", "distinct keys, all consumed or cleaned")
