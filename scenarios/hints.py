"""Hints: an arrival hint may be lost, doubled, forged or switched off; it only says when to look."""

import contextlib
import os
from collections.abc import Iterator

from omni_verify.contracts.keys import wake_directory
from omni_verify.engine.runtime import Cut
from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage

_SWITCH = "VLLM_OMNI_SHM_WAKEUP"
_ENDS = {"both-": ("1", "1"), "none-": ("0", "0"), "sender-": ("1", "0"), "receiver-": ("0", "1")}
"""Which end has hints: (sender, receiver)."""


@contextlib.contextmanager
def _switched(value: str) -> Iterator[None]:
    """Set the environment variable that a connector reads when it is built."""
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before


def _scope(s: Script) -> str:
    return f"{s.prefix}hints"


def _pair(s: Script) -> tuple[Stage, Stage]:
    """Build a producer and a consumer that meet in a wake directory of this scenario's own."""
    extra = {"wakeup_scope": _scope(s)}
    return (
        s.stage(1, "producer", receives=False, extra=extra),
        s.stage(2, "consumer", extra=extra),
    )


def _fifos(s: Script) -> list[str]:
    """Paths of the wake FIFOs of this scenario's receivers."""
    folder = wake_directory(os.getuid(), os.getppid(), _scope(s))
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [f"{folder}/{n}" for n in names if n.startswith("2_")]


def _wait_for_fifo(s: Script, consumer: Stage, label: str) -> None:
    """Register a request, so that its receiver opens its FIFO and waits there."""
    consumer.admit(label)
    consumer.tick()
    s.until(lambda: bool(_fifos(s)), "the receiver has a FIFO")


def _expect_stream(s: Script, producer: Stage, consumer: Stage, label: str = "R") -> None:
    """Send three chunks and a terminal, each only when the one before was taken, and judge the stream."""
    producer.admit(label)
    got = consumer.handle(label).got
    with _reported(s, label):
        for chunk in range(3):
            producer.emit(label, 3)
            consumer.consume(label, frames=3 * chunk + 3, settle=False)
        producer.end(label, 1)
        consumer.consume(label, settle=False)
    s.expect(
        "I25",
        len(got.frames) == 10,
        "the stream arrives whole",
        expected="10 frames",
        found=got.frames,
        key=label,
    )


@contextlib.contextmanager
def _reported(s: Script, label: str) -> Iterator[None]:
    """Report a receiver that does not look again without a hint, where the bound of the wait ends it."""
    try:
        yield
    except Cut:
        s.expect(
            "I25",
            False,
            "a receiver waits for a hint that does not come",
            expected="it polls on its timer",
            key=label,
        )
        raise


@scenario(
    "hints/on-and-off",
    invariants=("I25",),
    source="article section 2.4; vllm-omni#8082",
    needs=("wakeups",),
    explorable=False,
)
def on_and_off(s: Script) -> None:
    """The same stream with hints at both ends, at none, only at the sender and only at the receiver:
    four times the same frames, and nothing left."""
    for kind, (sender, receiver) in _ENDS.items():
        extra = {"wakeup_scope": _scope(s)}
        with _switched(sender):
            producer = s.stage(1, f"{kind}producer", receives=False, extra=extra)
        with _switched(receiver):
            consumer = s.stage(2, f"{kind}consumer", extra=extra)
        label = kind.rstrip("-")
        consumer.admit(label)
        _expect_stream(s, producer, consumer, label)


@scenario(
    "hints/lost", invariants=("I25",), source="article section 2.4", needs=("wakeups",), explorable=False
)
def lost(s: Script) -> None:
    """A cleaner of temporary files has removed the receiver's FIFO: no hint arrives any more, and the
    receiver finds every chunk on its timer."""
    producer, consumer = _pair(s)
    _wait_for_fifo(s, consumer, "R")
    for path in _fifos(s):
        os.unlink(path)
    _expect_stream(s, producer, consumer)


@scenario(
    "hints/doubled-and-forged",
    invariants=("I25",),
    source="article section 2.4",
    needs=("wakeups",),
    explorable=False,
)
def doubled_and_forged(s: Script) -> None:
    """Before, between and after the chunks hundreds of hints come that nobody's put has sent: the
    receiver looks, finds what is there, and no more."""
    producer, consumer = _pair(s)
    _wait_for_fifo(s, consumer, "R")

    def forge() -> None:
        for path in _fifos(s):
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                try:
                    os.write(fd, b"\1" * 200)
                finally:
                    os.close(fd)

    producer.admit("R")
    got = consumer.handle("R").got
    with _reported(s, "R"):
        for chunk in range(3):
            forge()
            producer.emit("R", 3)
            forge()
            consumer.consume("R", frames=3 * chunk + 3, settle=False)
        forge()
        producer.end("R", 1)
        consumer.consume("R", settle=False)
    s.expect("I25", len(got.frames) == 10, "the stream arrives whole", expected="10 frames", found=got.frames)


@scenario(
    "hints/late", invariants=("I25",), source="article section 2.4", needs=("wakeups",), explorable=False
)
def late(s: Script) -> None:
    """All chunks were put before the receiver existed: every hint was given to nobody. It finds them
    all the same."""
    producer, consumer = _pair(s)
    producer.admit("R")
    for _ in range(3):
        producer.emit("R", 3)
    producer.end("R", 1)
    s.drain(producer)
    consumer.admit("R")
    with _reported(s, "R"):
        consumer.consume("R", settle=False)
    frames = consumer.handle("R").got.frames
    s.expect("I25", len(frames) == 10, "the stream arrives whole", expected="10 frames", found=frames)


@scenario(
    "hints/stale-fifo",
    invariants=("I25", "I29"),
    source="article section 2.4; vllm#51317",
    needs=("wakeups",),
    explorable=False,
)
def stale_fifo(s: Script) -> None:
    """A receiver was killed and its FIFO has no reader; beside it lies a plain file. A put neither waits
    for the one nor writes into the other, and the living receiver gets everything."""
    producer, consumer = _pair(s)
    _wait_for_fifo(s, consumer, "R")
    folder = os.path.dirname(_fifos(s)[0])
    stale, plain = f"{folder}/2_{'0' * 32}", f"{folder}/2_{'1' * 32}"
    os.mkfifo(stale, 0o600)
    os.close(os.open(plain, os.O_CREAT | os.O_WRONLY, 0o600))
    _expect_stream(s, producer, consumer)
    s.expect(
        "I25",
        os.path.getsize(plain) == 0,
        "a file that is no FIFO is not written to",
        found=os.path.getsize(plain),
    )
    for path in (stale, plain):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
