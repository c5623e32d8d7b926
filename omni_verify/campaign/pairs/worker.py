"""One end of a pair: the job that a zygote's child runs, with its own target, beside the other end.

Both ends run the same phases and meet between them (`pairs.link`), so that an audit sees both at rest.
The sender is stage 1 and the receiver stage 2, each the target's own adapter and connector, driven by
the harness's stages; nothing here knows a release.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from omni_verify.audit import shm
from omni_verify.campaign import wire
from omni_verify.campaign.pairs import payloads as pair_payloads
from omni_verify.campaign.pairs.link import Link, LinkLost
from omni_verify.checks.observation import Broken, Observation
from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.runtime import Cut
from omni_verify.harness.case import own_resource_tracker
from omni_verify.harness.script import Script
from omni_verify.settings import Settings
from omni_verify.targets.protocol import Target

__all__ = ["ENTRY", "RECEIVER", "SENDER", "EndOrder", "EndReport", "run"]

ENTRY = "omni_verify.campaign.pairs.worker:run"
"""Name of `run` for `Zygote.submit`."""
SENDER, RECEIVER = "sender", "receiver"
CHUNKS, FRAMES = 20, 5
"""Chunks of the stream, and frames of each."""
LABEL, PAYLOAD = "R", "P"
_logger = logging.getLogger(__name__)


class EndOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What one end shall do.

    Attributes:
        case: name of the case.
        role: ``"sender"`` or ``"receiver"``.
        link: path of the relay's socket.
        prefix: key prefix of the pair, the same on both ends.
        settings: bounds.
    """

    case: str
    role: str
    link: str
    prefix: str
    settings: Settings = Settings()


class EndReport(msgspec.Struct, kw_only=True):
    """What one end saw.

    Attributes:
        seen: its ledger and audits; those of /dev/shm are the receiver's, taken with both ends at rest.
        broken: contracts found broken by this end itself.
        actors, finished: as in `verdict.Evidence`.
        checked: how many observations were looked at.
        reaps: the target forgets keys that another process consumed (a capability).
        cut: why this end was cut off; empty when it was not.
        stacks: wait-for graph and stacks of a wait that ran out.
    """

    seen: Observation
    broken: list[Broken]
    actors: tuple[str, ...]
    finished: tuple[str, ...]
    checked: int
    reaps: bool
    cut: str
    stacks: str


def run(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Play one end in this process and return the encoded `EndReport`."""
    order = msgspec.convert(arguments, EndOrder)
    own_resource_tracker()
    bounds = order.settings
    runtime = ThreadRuntime(PartialOrder(), gate_s=bounds.gate_s, wait_s=bounds.wait_s, prefix=order.prefix)
    script = Script(target, runtime, PartialOrder(), order.prefix, settings=bounds, coarse=True)
    cut = ""
    link = Link(order.link, bounds.case_s / 2)
    try:
        before = _foreign(order.prefix)
        PROGRAMS[order.case, order.role](script, link)
        link.meet("program")
        _rest(script, link, order.role)
        _end(script, link, order.role, before if context.isolation == "mount" else None)
    except Cut:
        cut = runtime.cut
    except LinkLost as lost:
        cut = str(lost)
    except Exception as error:
        script.seen.failures[order.role] = f"{type(error).__name__}: {error}"
        _logger.warning("the %s raised", order.role, exc_info=True)
    finally:
        link.close()
    return msgspec.msgpack.encode(_report(script, runtime, order.role, cut))


def _report(script: Script, runtime: ThreadRuntime, role: str, cut: str) -> EndReport:
    seen = script.seen
    for actor, error in runtime.failures.items():
        if isinstance(error, LinkLost):
            cut = cut or str(error)
        else:
            seen.failures[f"{role}.{actor}"] = f"{type(error).__name__}: {error}"
    ended = [] if cut or role in seen.failures else [role]
    return EndReport(
        seen=seen,
        broken=script.broken,
        actors=(role, *(f"{role}.{a}" for a in runtime.actors)),
        finished=(*ended, *(f"{role}.{a}" for a in runtime.finished)),
        checked=script.checked + len(seen.delivered) + (seen.quiet is not None) + (seen.closed is not None),
        reaps=script.target.capabilities.reap,
        cut=cut or runtime.cut,
        stacks=runtime.stacks,
    )


# -- phases that every case has ---------------------------------------------------------------


def _rest(script: Script, link: Link, role: str) -> None:
    """Bring this end to rest; when both are, the receiver lists what is left."""
    script.quiesce()
    link.meet("rest")
    script.seen.quiet = script.shm() if role == RECEIVER else None
    link.meet("quiet")


def _end(script: Script, link: Link, role: str, before: set[str] | None) -> None:
    """Shut this end down; when both are, the receiver lists what is left, foreign names included."""
    script.shutdown()
    script.seen.closed = None
    link.meet("closed")
    if role == RECEIVER:
        left = [e.name.replace(script.prefix, "", 1) for e in shm.scan(script.prefix).entries]
        strange = [] if before is None else sorted(_foreign(script.prefix) - before)
        script.seen.closed = left + strange
    link.meet("audited")


def _foreign(prefix: str) -> set[str]:
    return set(shm.scan(prefix).foreign)


# -- stream -----------------------------------------------------------------------------------


def _stream_sender(script: Script, link: Link) -> None:
    producer = script.producer()
    producer.admit(LABEL)
    link.meet("built")

    def talk() -> None:
        for _ in range(CHUNKS):
            producer.emit(LABEL, FRAMES)
        producer.end(LABEL)

    script.actor("talker", talk)
    script.run()
    script.drain(producer)
    link.meet("sent")
    script.idle_rounds(producer, 3)


def _stream_receiver(script: Script, link: Link) -> None:
    consumer = script.consumer()
    consumer.admit(LABEL)
    link.meet("built")
    # This actor stands for the sender: while it has not ended, more can arrive and no request settles.
    script.actor("sender-ends", link.meet, "sent")
    script.actor("code2wav", consumer.consume, LABEL)
    script.run()
    got = consumer.handle(LABEL).got
    script.expect(
        "I28",
        len(got.frames) == CHUNKS * FRAMES and got.finishes == 1,
        "not all frames and one end arrive",
        expected=f"{CHUNKS * FRAMES} frames, 1 end",
        found=f"{len(got.frames)} frames, {got.finishes} ends",
        key=LABEL,
    )


# -- abort in mid-stream ----------------------------------------------------------------------


def _abort_sender(script: Script, link: Link) -> None:
    """Three chunks are sent, one is read; the receiver is told, one more chunk is sent, this end is told."""
    producer = script.producer()
    producer.admit(LABEL)
    for _ in range(3):
        producer.emit(LABEL, FRAMES)
    script.drain(producer)
    link.meet("three-sent")
    link.meet("receiver-told")
    producer.emit(LABEL, FRAMES)
    script.drain(producer)
    producer.abort(LABEL)
    script.drain(producer)


def _abort_receiver(script: Script, link: Link) -> None:
    consumer = script.consumer()
    consumer.admit(LABEL)
    link.meet("three-sent")
    consumer.consume(LABEL, frames=FRAMES)
    got = consumer.handle(LABEL).got
    script.expect(
        "I28",
        got.frames == [(LABEL, 1, i) for i in range(FRAMES)],
        "the first chunk does not arrive before the abort",
        expected=f"{FRAMES} frames",
        found=f"{len(got.frames)} frames",
        key=LABEL,
    )
    consumer.abort(LABEL)
    link.meet("receiver-told")


# -- payloads ---------------------------------------------------------------------------------


def _payload_sender(script: Script, link: Link) -> None:
    connector = script.connector(1)
    notes = []
    for n, (name, payload) in enumerate(pair_payloads.corpus(type(script.target.payload()))):
        expected = pair_payloads.describe(payload)
        ok, size, _ = connector.put("1", "2", script.key(PAYLOAD, 1, n), payload)
        script.expect(
            "I15", ok, f"the sender's connector refuses the payload {name}", expected="a put", key=name
        )
        if ok:
            notes.append((n, name, size, expected))
    link.meet("put", msgspec.msgpack.encode(notes))
    link.meet("got")


def _payload_receiver(script: Script, link: Link) -> None:
    connector = script.connector(2)
    for n, name, size, expected in msgspec.msgpack.decode(link.meet("put")):
        # The sender is at rest: nobody holds a lock, so a get that finds nothing will never find it.
        received = connector.get("1", "2", script.key(PAYLOAD, 1, n))
        found = [] if received is None else pair_payloads.describe(received[0])
        script.expect(
            "I15",
            found == expected,
            f"the payload {name} arrives changed" if received else f"the payload {name} does not arrive",
            expected="value, dtype and shape as sent",
            found=pair_payloads.difference(expected, found) if received else "get returned None",
            key=name,
        )
        if received is not None:
            script.expect(
                "I16",
                received[1] == size,
                f"the payload {name} has another size on the wire",
                expected=f"{size} bytes",
                found=f"{received[1]} bytes",
                key=name,
            )
    link.meet("got")


PROGRAMS: dict[tuple[str, str], Callable[[Script, Link], None]] = {
    ("stream", SENDER): _stream_sender,
    ("stream", RECEIVER): _stream_receiver,
    ("abort-mid-stream", SENDER): _abort_sender,
    ("abort-mid-stream", RECEIVER): _abort_receiver,
    ("payloads", SENDER): _payload_sender,
    ("payloads", RECEIVER): _payload_receiver,
}
"""What each end does between building its parts and coming to rest."""
