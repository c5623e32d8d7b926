"""Workloads: little programs without an order of their own, for a strategy to interleave.

What they expect holds in every order. Under `check` their actors run one after another.
"""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario(
    "workloads/one-key", invariants=("I26", "I18"), weak_spots=("W3",), source="lockgate#48; dimos#3671"
)
def one_key(s: Script) -> None:
    """A value is put, cleaned up and put again under one key while a reader takes what it finds: each
    read gives one whole value, and the second value reaches that read or the next one."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    frames = {1: 2, 2: 8}
    got: list[tuple[str, int, int]] = []

    def put(generation: int) -> None:
        writer.put("1", "2", key, s.payload("R", frames[generation], generation=generation))

    def read() -> None:
        if not s.free:
            s.await_point("put.exit(R_1_0)#2")
        got.extend(s.frames(reader.get("1", "2", key)))

    def replace() -> None:
        writer.cleanup(key)
        put(2)

    put(1)
    s.actor("reader", read)
    s.actor("writer", replace)
    s.run()
    whole = {n: [("R", n, i) for i in range(count)] for n, count in frames.items()}
    s.expect_always(
        "I18",
        not got or got in whole.values(),
        "a read gives one whole value or nothing",
        found=got,
        key="R_1_0",
    )
    later = s.frames(reader.get("1", "2", key))
    s.expect_always(
        "I26",
        whole[2] in (got, later),
        "the second value under a key reaches a reader, whole",
        expected="8 frames of value 2",
        found=f"meanwhile: {len(got)} frames; afterwards: {len(later)} frames",
        key="R_1_0",
    )


@scenario(
    "workloads/end-and-reuse",
    invariants=("I38b", "I46"),
    weak_spots=("W4",),
    source="read in the adapter: cleanup after a terminal put",
)
def end_and_reuse(s: Script) -> None:
    """A stage that receives and sends ends a request and takes a new one under the same id, for which the
    stage before sends a whole stream: the new request gets all of it."""
    thinker, talker, decoder = s.stage(0, "thinker"), s.stage(1, "talker", worker_type="ar"), s.consumer()
    talker.admit("R")
    decoder.admit("R")

    def reuse() -> None:
        talker.end("R", 4)
        if not s.free:
            s.drain(talker)
        talker.admit("R")
        talker.tick()

    s.actor("scheduler", reuse)
    s.run()
    decoder.consume("R")
    thinker.admit("R", generation=2)
    thinker.emit("R", 4)
    thinker.end("R")
    talker.consume("R")


@scenario(
    "workloads/end-and-tick",
    invariants=("I44", "I44b"),
    weak_spots=("W2",),
    source="read in the adapter: cleanup after a terminal put",
)
def end_and_tick(s: Script) -> None:
    """A stage ends a request and ticks on while two others wait for chunks: what the save thread does
    after the terminal never disturbs the scheduler, and both are back in their queue."""
    talker, decoder = s.stage(1, "talker", worker_type="ar"), s.consumer()
    for label in ("A", "B"):
        talker.admit(label)
    talker.admit("R", queue=False)

    def schedule() -> None:
        talker.end("R", 4)
        if not s.free:
            s.drain(talker)
        talker.tick()
        talker.tick()

    s.actor("scheduler", schedule)
    s.run()
    decoder.admit("R")
    decoder.consume("R")
    waiting = sorted(r.request_id for r in talker.waiting)
    s.expect_always(
        "I44",
        waiting == sorted(map(s.external, "AB")),
        "every parked request is back in its queue, once",
        expected="A, B",
        found=waiting,
    )
    talker.abort("A", "B")


@scenario(
    "workloads/two-readers", invariants=("I19", "I26"), weak_spots=("W3",), source="lockgate#48; dimos#3671"
)
def two_readers(s: Script) -> None:
    """A value is cleaned up and another put under its key while two readers each look once: nobody gets a
    part of a value, and the second value is delivered once, meanwhile or afterwards."""
    writer, first, second = s.connector(1), s.connector(2), s.connector(2)
    key = s.key("R", 1, 0)
    frames = {1: 2, 2: 8}
    got: list[list[tuple[str, int, int]]] = []

    def put(generation: int) -> None:
        writer.put("1", "2", key, s.payload("R", frames[generation], generation=generation))

    def read(reader: Any) -> None:
        if not s.free:
            s.await_point("put.exit(R_1_0)#2")
        got.append(s.frames(reader.get("1", "2", key)))

    def replace() -> None:
        writer.cleanup(key)
        put(2)

    put(1)
    s.actor("writer", replace)
    s.actor("first", read, first)
    s.actor("second", read, second)
    s.run()
    got.append(s.frames(first.get("1", "2", key)))
    whole = {n: [("R", n, i) for i in range(count)] for n, count in frames.items()}
    s.expect_always(
        "I18",
        all(not g or g in whole.values() for g in got),
        "a read gives one whole value or nothing",
        found=[len(g) for g in got],
        key="R_1_0",
    )
    s.expect_always(
        "I19",
        [got.count(whole[1]) <= 1, got.count(whole[2])] == [True, 1],
        "the second value under a key is delivered once",
        expected="8 frames of value 2 to one read",
        found=[f"{len(g)} frames of value {g[0][1]}" if g else "nothing" for g in got],
        key="R_1_0",
    )


@scenario(
    "workloads/close-session-and-tick",
    invariants=("I44", "I44b"),
    weak_spots=("W2",),
    source="read in the adapter: cleanup after a terminal put",
)
def close_session_and_tick(s: Script) -> None:
    """A resumable session is closed while it is parked between two turns, with others that wait for chunks:
    its receiver is still registered when the save thread is done with the terminal. Whoever cleans it up, the
    scheduler finds its queues as it left them."""
    talker, decoder = s.stage(1, "talker", worker_type="ar"), s.consumer()
    for label in ("A", "B"):
        talker.admit(label)
    talker.admit("R", resumable=True)

    def schedule() -> None:
        talker.tick()
        talker.end_parked("R")
        talker.tick()
        talker.tick()

    s.actor("scheduler", schedule)
    s.run()
    decoder.admit("R")
    decoder.consume("R")
    waiting = sorted(r.request_id for r in talker.waiting)
    s.expect_always(
        "I44",
        waiting == sorted(map(s.external, "AB")),
        "every parked request is back in its queue, once",
        expected="A, B",
        found=waiting,
    )
    talker.abort("A", "B")
