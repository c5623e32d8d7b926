"""Survival: what one request or one call does wrong costs nobody else, and no thread dies of it."""

from omni_verify.faults.nemesis import Injected
from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage


def _expect_alive(s: Script, *stages: Stage) -> bool:
    """Judge that both threads of each stage live."""
    dead = [
        t.name for g in stages for t in (g.adapter.save_thread, g.adapter.recv_thread) if not t.is_alive()
    ]
    return s.expect(
        "I37b", not dead, "a thread has died", expected="it contains the exception", found=", ".join(dead)
    )


def _expect_others_run(s: Script, producer: Stage, consumer: Stage) -> None:
    """Send one more request through and judge that it arrives whole."""
    producer.admit("next")
    handle = consumer.admit("next")
    producer.emit("next", 4)
    producer.end("next", 1)
    consumer.consume("next")
    s.expect(
        "I37b",
        len(handle.got.frames) == 5,
        "the next request arrives whole",
        expected="5 frames",
        found=handle.got.frames,
    )


@scenario("survival/put-raises", invariants=("I37b",), source="vllm-omni#4855")
def put_raises(s: Script) -> None:
    """A put raises: the save thread lives, and the next request is sent."""
    producer, consumer = s.pair()
    producer.admit("R")
    fault = s.fail_put("R_1_0", raises=True)
    producer.emit("R", 4)
    s.drain(producer)
    s.expect("I37b", fault.struck, "the fault struck", found=fault.struck)
    if _expect_alive(s, producer):
        producer.abort("R")
        _expect_others_run(s, producer, consumer)


@scenario("survival/processor-raises", invariants=("I37b",), source="vllm-omni#5739")
def processor_raises(s: Script) -> None:
    """A processor raises: the save thread lives, and the next request is sent."""
    producer, consumer = s.pair()
    producer.admit("R")
    fault = s.fault("proc", "R", error=KeyError("injected: no such layer"), note="the processor raises")
    producer.emit("R", 4)
    s.drain(producer)
    s.expect("I37b", fault.struck, "the fault struck", found=fault.struck)
    if _expect_alive(s, producer):
        producer.abort("R")
        _expect_others_run(s, producer, consumer)


@scenario("survival/get-raises", invariants=("I37b", "I28"), source="vllm-omni#4855; vllm-omni#6033")
def get_raises(s: Script) -> None:
    """A get raises twice before it works, as a connector with a lost peer does: the receive thread
    lives, polls again, and the stream arrives whole."""
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    fault = s.fault(
        "get", "R_1_0", times=(1, 2), error=Injected("injected: the peer is gone"), note="get raises"
    )
    consumer.tick()
    s.until(lambda: fault.struck == 2 or not consumer.adapter.recv_thread.is_alive(), "get has raised twice")
    producer.emit("R", 4)
    producer.end("R", 1)
    if _expect_alive(s, consumer):
        consumer.consume("R")
        frames = consumer.handle("R").got.frames
        s.expect("I28", len(frames) == 5, "the stream arrives whole", expected="5 frames", found=frames)


@scenario(
    "survival/reap-raises",
    invariants=("I37b",),
    weak_spots=("W11",),
    source="measured on 0.30.0",
    needs=("reap",),
)
def reap_raises(s: Script) -> None:
    """The idle save thread looks for consumed keys and the connector raises: the thread lives, and
    what comes next is sent."""
    producer, consumer = s.pair()
    fault = s.fault("reap", error=OSError(5, "injected: Input/output error"), note="reap raises")
    s.until(lambda: bool(fault.struck), "the connector has raised")
    since = len(s.runtime.trace)

    def went_on() -> bool:
        idle = sum(e.point == "idle.save" and e.key == producer.name for e in s.runtime.trace.events[since:])
        return idle > 1 or not producer.adapter.save_thread.is_alive()

    s.until(went_on, "the save thread goes idle again, or has died")
    if _expect_alive(s, producer):
        _expect_others_run(s, producer, consumer)


@scenario("survival/cleanup-raises", invariants=("I37b", "I51"), source="vllm-omni#8082")
def cleanup_raises(s: Script) -> None:
    """The reclaim of an aborted request raises at one key: the save thread lives, the other keys are
    reclaimed, and the next request is sent."""
    producer, consumer = s.pair()
    producer.admit("R")
    for _ in range(3):
        producer.emit("R", 2)
    s.drain(producer)
    fault = s.fault(
        "cleanup", "R_1_1", error=OSError(5, "injected: Input/output error"), note="cleanup raises"
    )
    s.actor("client", producer.abort, "R")
    s.run()
    s.drain(producer)
    left = [n for n in s.shm() if "R_1_0" in n or "R_1_2" in n]
    s.expect(
        "I51", not left, "the other keys are reclaimed", expected="only R_1_1 is left", found=", ".join(left)
    )
    if fault.struck:
        producer.connector.cleanup(s.key("R", 1, 1))
    if _expect_alive(s, producer):
        _expect_others_run(s, producer, consumer)
