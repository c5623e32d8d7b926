"""Messages between a campaign and the process that holds a target (the zygote).

Frames are a four-byte big-endian length and one msgpack object. A frame carries everything that
crosses the border, so that either end may die at any moment and the other sees an end of file.
"""

from __future__ import annotations

import socket
import struct

import msgspec

from omni_verify.targets.protocol import TargetInfo

__all__ = [
    "Job",
    "JobContext",
    "Outcome",
    "Prepared",
    "Ready",
    "Refused",
    "Start",
    "decode",
    "failure_of",
    "receive",
    "send",
]

_LENGTH = struct.Struct(">I")


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the zygote shall hold.

    Attributes:
        spec: target as the user named it.
        loader: ``"auto"``, ``"isolated"`` or ``"native"``.
        resolver: ``module:function`` that turns spec and loader into a Target.
        catalogue: package whose scenarios are imported before the first fork; empty for none.
        isolation: ``"auto"``, ``"mount"`` or ``"prefix"``.
        load_s: seconds after which a hanging load ends the zygote even if its parent is gone.
    """

    spec: str
    loader: str
    resolver: str
    catalogue: str
    isolation: str
    load_s: float


class Job(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One piece of work for a forked child.

    Attributes:
        number: identifies the answer.
        entry: ``module:function`` called as ``function(target, params, context) -> bytes``.
        params: its msgpack-able arguments.
        prefix: key prefix that belongs to this job alone.
        shm_options: mount options of the private /dev/shm.
        limit_s: seconds after which it is ended from outside.
        namespace_of: pid whose mount namespace is joined; 0 makes an own one.
    """

    number: int
    entry: str
    params: dict[str, object]
    prefix: str
    shm_options: str
    limit_s: float
    namespace_of: int = 0


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """The target was fetched; loading begins."""


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The target is loaded; jobs may come. `isolation` is what the jobs will get."""

    info: TargetInfo
    isolation: str
    reason: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The target cannot be used: the text and exit code of the error that said so."""

    message: str
    exit_code: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How one job ended.

    Attributes:
        number: the job's number.
        payload: what the function returned; None when it did not return.
        error: traceback when the function raised.
        signal: signal that ended the child, 0 if none.
        status: exit status of the child when no signal ended it.
        timed_out: True when the child was ended at its limit.
        output: the end of what the child wrote to stdout and stderr, stacks included.
        duration_s: wall time.
    """

    number: int
    payload: bytes | None = None
    error: str = ""
    signal: int = 0
    status: int = 0
    timed_out: bool = False
    output: str = ""
    duration_s: float = 0.0


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job runs: its key prefix and ``"mount"`` or ``"prefix"``."""

    prefix: str
    isolation: str


Message = Start | Job | Prepared | Ready | Refused | Outcome
_DECODER = msgspec.msgpack.Decoder(Message)


def send(link: socket.socket, message: Message) -> None:
    """Write one frame.

    Raises:
        OSError: the other end is gone.
    """
    body = msgspec.msgpack.encode(message)
    link.sendall(_LENGTH.pack(len(body)) + body)


def receive(link: socket.socket) -> Message | None:
    """Read one frame; None at the end of the file, also in the middle of a frame."""
    head = _exactly(link, _LENGTH.size)
    body = _exactly(link, _LENGTH.unpack(head)[0]) if head is not None else None
    return None if body is None else decode(body)


def decode(body: bytes) -> Message:
    """Decode one message without its length."""
    return _DECODER.decode(body)


def _exactly(link: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = link.recv(min(count - len(parts), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)


def failure_of(outcome: Outcome, what: str) -> str:
    """Say in one line why a job gave no result; `what` names the job where its own code failed."""
    if outcome.timed_out:
        return f"it was ended from outside after {outcome.duration_s:.0f} s"
    if outcome.error:
        return f"{what} failed: {outcome.error.strip().splitlines()[-1]}"
    if outcome.signal:
        return f"its process was killed by signal {outcome.signal}"
    return f"its process ended with status {outcome.status} without a result"
