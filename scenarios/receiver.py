"""Receiver: late data, stale registrations, and what cleanup leaves behind."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


def _abort_during_get(s: Script, worker_type: str) -> None:
    producer, consumer = s.pair(worker_type=worker_type)
    producer.admit("R")
    handle = consumer.admit("R")
    s.actor("client", consumer.abort, "R")
    s.declare(
        "consumer.recv:seg.read.exit(R_1_0) < abort.enter(R)",
        "abort.exit(R) < consumer.recv:get.exit(R_1_0)",
        blocked="I29",
    )
    producer.emit("R", 4)
    s.drain(producer)
    consumer.tick()
    s.run()
    s.idle_rounds(producer, 2)
    adapter, ident = consumer.adapter, handle.internal
    revived = [
        name
        for name in (
            "_finished_load_reqs",
            "requests_with_ready_chunks",
            "get_req_chunk",
            "request_ids_mapping",
            "_pending_ar_prompt_updates",
        )
        if ident in getattr(adapter, name, ())
    ]
    s.expect(
        "I38",
        not revived,
        "a late chunk revives state of a cleaned request",
        expected="no container holds it",
        found=", ".join(revived),
    )
    touched = list(handle.request.prompt_token_ids or []) or handle.request.additional_information
    s.expect(
        "I38",
        not touched,
        "a late chunk is committed to a cleaned request",
        expected="prompt and payload untouched",
        found=touched,
    )
    producer.abort("R")


@scenario("receiver/cleanup-during-get", invariants=("I38",), source="vllm-omni#6089; article section 5.6")
def cleanup_during_get(s: Script) -> None:
    """The request is cleaned up while its get runs: the chunk that the get returns is not committed
    and nothing of the request comes back to life."""
    _abort_during_get(s, "generation")


@scenario("receiver/ar-cleanup-during-get", invariants=("I38",), source="vllm-omni#5684")
def ar_cleanup_during_get(s: Script) -> None:
    """The same on an autoregressive stage: no pending prompt update of the cleaned request stays."""
    _abort_during_get(s, "ar")


@scenario(
    "receiver/reregistered-during-get", invariants=("I38",), source="vllm-omni#6089; article section 5.6"
)
def reregistered_during_get(s: Script) -> None:
    """While a get of the old registration runs, the request is cleaned up and the same internal id is
    registered again. The old chunk must never reach the new request: identity counts, not the id."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    producer.emit("R", 4)
    s.drain(producer)

    def abort_and_register_again() -> None:
        # In every order: a key carries no generation, so the old chunk is read before the id is used again.
        s.await_point("consumer.recv:seg.read.exit(R_1_0)")
        consumer.abort("R")
        consumer.admit("R")
        consumer.tick()
        s.mark("registered-again")

    s.actor("client", abort_and_register_again)
    s.declare(
        "consumer.recv:seg.read.exit(R_1_0) < abort.enter(R)",
        "mark(registered-again) < consumer.recv:get.exit(R_1_0)",
        blocked="I29",
    )
    consumer.tick()
    s.run()
    s.await_point("consumer.recv:poll.exit(R_1_0)")
    adapter, ident = consumer.adapter, consumer.handle("R").internal
    reached = ident in adapter._finished_load_reqs or adapter.get_req_chunk.get(ident, 0) > 0
    s.expect(
        "I38",
        not reached,
        "the old chunk reaches the new registration",
        expected="not ready, next chunk 0",
        found=f"ready {ident in adapter._finished_load_reqs}, chunk {adapter.get_req_chunk.get(ident, 0)}",
    )
    producer.abort("R")
    s.drain(producer)
    producer.admit("R")
    producer.emit("R", 4)
    producer.end("R", 4)
    consumer.consume("R")


@scenario("receiver/stale-queued-entry", invariants=("I38",), source="vllm-omni#2028; article section 5.6")
def stale_queued_entry(s: Script) -> None:
    """A registration still waits in the receive queue when its request is cleaned up: when its turn
    comes it is dropped, and no state of the request is made again."""
    producer, consumer = s.pair()
    for label in ("A", "R"):
        producer.admit(label)
        consumer.admit(label)
    producer.emit("A", 4)
    s.drain(producer)
    s.actor("client", consumer.abort, "R")
    s.declare(
        "consumer.recv:get.enter(A_1_0) < abort.enter(R)",
        "abort.exit(R) < consumer.recv:get.exit(A_1_0)",
        blocked="I29",
    )
    consumer.tick()
    s.run()
    aborted = s.runtime.trace.last("abort.exit", "R")
    consumer.consume("A", frames=4)
    since = aborted.seq if aborted is not None else 0
    s.until(
        lambda: any(s.runtime.trace.since("idle.recv", since, "consumer")),
        "the receive thread has looked at all that was queued",
    )
    revived = [
        n
        for n in ("request_ids_mapping", "get_req_chunk", "_finished_load_reqs")
        if consumer.handle("R").internal in getattr(consumer.adapter, n)
    ]
    s.expect(
        "I38",
        not revived,
        "a queued stale registration revives state",
        expected="no container holds it",
        found=", ".join(revived),
    )
    producer.end("A")
    producer.abort("R")


@scenario("receiver/no-tombstones", invariants=("I39",), source="vllm-omni#8082", explorable=False)
def no_tombstones(s: Script) -> None:
    """Five thousand requests are registered and cleaned up: no container grows with their number."""
    consumer = s.consumer()
    before = s.sizes(consumer)
    rounds = 5000
    for first in range(0, rounds, 500):
        requests = [
            s.target.create_request(s.external(f"R{i}"), s.external(f"R{i}"))
            for i in range(first, first + 500)
        ]
        for request in requests:
            consumer.adapter.load_async(request)
            consumer.adapter.cleanup_receiver(request.request_id)
        s.until(lambda: not consumer.adapter._pending_load_reqs, "the receive queue is empty")
        # The finish verb cleans once more when the queue has long dropped the entry.
        consumer.adapter.finish_requests(
            {r.request_id for r in requests}, s.target.status("FINISHED_ABORTED"), {}
        )
    consumer.tick()
    grown = [
        f"{name}: {before.get(name, 0)} -> {size}"
        for name, size in s.sizes(consumer).items()
        if size > before.get(name, 0) + rounds // 100
    ]
    s.expect(
        "I39",
        not grown,
        "a container grows with the number of finished requests",
        expected="sizes that depend on live requests",
        found="; ".join(grown),
    )
