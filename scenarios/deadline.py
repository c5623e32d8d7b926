"""Deadline: a request without a chunk ends with an error, however its stream went silent."""

import time
from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage

_TIMEOUT_S = 600.0


class _Clock:
    """The module `time` with a clock that only the scenario moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic(self) -> float:
        """Seconds, as `time.monotonic`."""
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _clock(s: Script) -> _Clock:
    """Replace the name `time` in the target's adapter modules."""
    clock = _Clock()
    for module in s.target.modules()["adapter"]:
        if vars(module).get("time") is time:
            s.patcher.replace(module, "time", clock)
    return clock


def _late(stage: Stage) -> list[str]:
    return sorted(stage.adapter.collect_timed_out_request_ids(_TIMEOUT_S))


@scenario(
    "deadline/stall-is-reported",
    invariants=("I46", "I39"),
    source="vllm-omni#3833",
    needs=("deadline",),
    explorable=False,
)
def stall_is_reported(s: Script) -> None:
    """No chunk ever comes. Ticks go by, which must not restart the clock; after the stall time the
    request is named, once, and when it has been ended nothing of it stays."""
    clock, consumer = _clock(s), s.consumer()
    ident = consumer.admit("R").internal
    consumer.tick()
    for now in (300.0, 599.0):
        clock.now = 1_000_000.0 + now
        consumer.tick()
        s.expect(
            "I46",
            not _late(consumer),
            f"after {now:.0f} s of {_TIMEOUT_S:.0f} s it is not late",
            found=_late(consumer),
        )
    clock.now += 2.0
    consumer.tick()
    s.expect(
        "I46", consumer.adapter.collect_timed_out_request_ids(0) == set(), "a time of 0 s means no deadline"
    )
    s.expect(
        "I46", _late(consumer) == [ident], "after 601 s it is late", expected=ident, found="nobody is late"
    )
    s.expect("I46", not _late(consumer), "and is named once")
    consumer.handle("R").got.error = "deadline"
    consumer.abort("R")


@scenario(
    "deadline/progress-resets",
    invariants=("I46",),
    source="vllm-omni#3833",
    needs=("deadline",),
    explorable=False,
)
def progress_resets(s: Script) -> None:
    """A long stream with a chunk every 500 s is never late: the clock measures the stall. When the
    chunks stop, it is late 600 s after the last wait began."""
    clock, (producer, consumer) = _clock(s), s.pair()
    producer.admit("R")
    ident = consumer.admit("R").internal
    consumer.tick()
    for chunk in range(3):
        clock.now += 500.0
        s.expect(
            "I46", not _late(consumer), f"500 s before chunk {chunk} are no stall", found=_late(consumer)
        )
        producer.emit("R", 2)
        consumer.consume("R", frames=2 * chunk + 2)
        consumer.tick()
    clock.now += 599.0
    s.expect("I46", not _late(consumer), "599 s after the last chunk it is not late", found=_late(consumer))
    clock.now += 2.0
    s.expect(
        "I46", _late(consumer) == [ident], "601 s after the last chunk it is late", found="nobody is late"
    )
    producer.end("R")
    consumer.consume("R")


@scenario(
    "deadline/clock-while-waiting",
    invariants=("I46",),
    source="vllm-omni#3833; article section 5.6",
    needs=("deadline",),
)
def clock_while_waiting(s: Script) -> None:
    """At every moment at which a request waits for a chunk its clock runs: when it was just parked,
    when a neighbour is aborted or ends, after each tick, and when its id is used again."""
    producer, consumer = s.pair()
    for label in ("R", "A", "B"):
        consumer.admit(label)
    producer.admit("A")
    waiting = s.target.status("WAITING_FOR_CHUNK")

    def judge(moment: str) -> None:
        clocks = consumer.adapter._waiting_since
        parked = [h.label for h in consumer.handles if not h.over and h.request.status == waiting]
        lost = [h.label for h in consumer.handles if h.label in parked and h.internal not in clocks]
        s.expect(
            "I46",
            parked and not lost,
            f"{moment}: a request waits without a clock",
            found=lost or "nobody waits",
        )

    consumer.tick()
    judge("after the first tick")
    consumer.abort("B")
    judge("after a neighbour's abort")
    producer.end("A", 4)
    consumer.consume("A")
    judge("after a neighbour's end")
    consumer.abort("R")
    consumer.admit("R")
    consumer.tick()
    judge("after the id was used again")
    consumer.abort("R")
