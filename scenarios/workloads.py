"""Workloads: little programs without an order of their own, for a strategy to interleave.

What they expect holds in every order. Under `check` their actors run one after another.
"""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _end(s: Script, stage: Stage) -> None:
    """End R with a chunk; under `check`, its save thread has sent everything when this returns."""
    stage.end("R", 4)
    if not s.free:
        s.drain(stage)


def _emit_and_abort(s: Script, producer: Stage, reader: Any) -> None:
    """Queue a chunk of R and abort it at once; under `check`, after the chunk was sent and read."""
    producer.emit("R", 4)
    if not s.free:
        s.drain(producer)
        reader.get("1", "2", s.key("R", 1, 0))
    producer.abort("R")


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
        _end(s, talker)
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
        _end(s, talker)
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
    """A value is cleaned up and another put under its key and read by one reader, while another looks once:
    nobody gets a part of a value, and the second value is delivered once, meanwhile or afterwards."""
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
        read(second)

    put(1)
    s.actor("first", read, first)
    s.actor("writer", replace)  # and second reader: fewer actors, a larger share of the orders that matter
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
    "workloads/terminal-and-ticks",
    invariants=("I44b",),
    weak_spots=("W2",),
    source="read in the adapter: cleanup after a terminal put",
)
def terminal_and_ticks(s: Script) -> None:
    """A stage sends the terminal of one request and frees it some ticks later; others wait for chunks all
    the time. No container of the scheduler changes while it walks over it: no tick raises."""
    talker, reader = s.stage(1, "talker", worker_type="ar"), s.connector(2)
    for label in ("A", "B", "R"):
        talker.admit(label)
    ended = talker.handle("R")

    def schedule() -> None:
        talker.tick()
        with talker.turn:
            talker.waiting.remove(ended.request)
            ended.request.status = s.target.status("FINISHED_STOPPED")
            talker.adapter.save_async(None, ended.request)
        if not s.free:
            s.drain(talker)
        for _ in range(4):
            talker.tick()

    s.actor("scheduler", schedule)
    s.run()
    s.drain(talker)
    talker.abort("R")
    taken = reader.get("1", "2", s.key("R", 1, 0))
    s.expect("I44b", taken is not None, "the terminal arrives", found=taken, key="R_1_0")
    talker.abort("A", "B")


@scenario("workloads/abort-while-sending", invariants=("I31",), source="vllm-omni#8082; article section 5.3")
def abort_while_sending(s: Script) -> None:
    """A client leaves right after its chunk was queued. Wherever the save thread is with it, nothing of the
    request is left once that thread is idle."""
    producer, reader = s.producer(), s.connector(2)
    producer.admit("R")

    s.actor("scheduler", _emit_and_abort, s, producer, reader)
    s.run()
    s.drain(producer)


@scenario(
    "workloads/abort-and-reuse",
    invariants=("I30", "I32"),
    source="vllm-omni#8082; article sections 5.2 and 5.3",
)
def abort_and_reuse(s: Script) -> None:
    """A request is aborted and its id used again at once, wherever the save thread is with the old one. The
    new request is refused on record, or its chunk stands under its key: old chunks do not, and no old
    cleanup takes it away."""
    producer, reader = s.producer(), s.connector(2)
    producer.admit("R")

    def schedule() -> None:
        _emit_and_abort(s, producer, reader)
        if not s.free:
            s.drain(producer)
        producer.admit("R")
        producer.emit("R", 2)

    s.actor("scheduler", schedule)
    s.run()
    s.drain(producer)
    refused = producer.handle("R").sent.refused
    found = [s.frames(reader.get("1", "2", s.key("R", 1, chunk))) for chunk in range(2)]
    wanted = [[], []] if refused else [[("R", 2, 0), ("R", 2, 1)], []]
    s.expect_always(
        "I30",
        found == wanted,
        "a key of an id that is used again holds the new request's chunk, or nothing after a refusal",
        expected=str(wanted),
        found=found,
        key="R_1_0",
    )
    producer.abort("R")


@scenario(
    "workloads/leave-while-receiving", invariants=("I38",), source="vllm-omni#6089; article section 5.6"
)
def leave_while_receiving(s: Script) -> None:
    """A client leaves while the receive thread looks for its chunk, which has come: a registration that is
    cleaned up comes back to life in no container."""
    writer, consumer = s.connector(1), s.consumer()
    key = s.key("R", 1, 0)
    writer.put("1", "2", key, s.payload("R", 4))
    consumer.admit("R")

    def schedule() -> None:
        consumer.tick()
        if not s.free:
            s.polls(consumer, "R")
        consumer.abort("R")

    s.actor("scheduler", schedule)
    s.run()
    since = len(s.runtime.trace)
    s.until(
        lambda: sum(1 for _ in s.runtime.trace.since("idle.recv", since, consumer.name)) > 1,
        "the receive thread goes round",
    )
    ready = ("_finished_load_reqs", "requests_with_ready_chunks", "_pending_ar_prompt_updates")
    revived = [name for name in ready if s.external("R") in getattr(consumer.adapter, name, ())]
    s.expect_always(
        "I38",
        not revived,
        "a late chunk revives state of a cleaned request",
        expected="no container holds it",
        found=", ".join(revived),
    )
    writer.cleanup(key)
