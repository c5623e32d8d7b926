"""Schedule tokens: one short line of text that replays a run.

``ov1.<fingerprint>.<payload>``: version, 32-bit fingerprint of the program's name in hexadecimal, and
base64url of varints followed by two checksum bytes. The choices are written as pairs "zeros to skip,
code and number of options", so a minimised schedule of three switches needs about twenty characters.
The text holds source-level choices only, so it is valid on every carrier and Python version.
"""

from __future__ import annotations

import base64
import binascii
import functools
import zlib
from collections.abc import Iterator

from omni_verify.engine.control.scheduler import GRANULARITIES
from omni_verify.engine.schedule import Schedule, fingerprint
from omni_verify.errors import UsageError

__all__ = ["VERSION", "check_program", "decode", "encode"]

VERSION = "ov1"


def encode(schedule: Schedule) -> str:
    """Write ``schedule`` as a token."""
    known = len(schedule.arity) == schedule.deviations
    numbers: list[int] = []
    zeros, arity = 0, iter(schedule.arity)
    for code in schedule.tape:
        if not code:
            zeros += 1
            continue
        numbers += (zeros, code, next(arity)) if known else (zeros, code)
        zeros = 0
    data = _head(schedule.granularity, schedule.early_timers, schedule.max_steps)
    data += _varint(schedule.failure) + _varint(schedule.spurious_wakeups << 1 | known)
    # Most numbers are small and are their own encoding.
    data += bytes(numbers) if max(numbers, default=0) < 0x80 else b"".join(map(_varint, numbers))
    data += _checksum(data)
    text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    return f"{VERSION}.{schedule.program:08x}.{text}"


def decode(token: str) -> Schedule:
    """Read a token.

    Raises:
        UsageError: when the text is not a token of this version or was damaged.
    """
    parts = token.strip().split(".")
    if len(parts) != 3 or not parts[0].startswith("ov"):
        raise UsageError(f"not a schedule token: {token[:40]!r}. Expected {VERSION}.<program>.<choices>.")
    if parts[0] != VERSION:
        raise UsageError(
            f"schedule token of version {parts[0]!r}; this release reads {VERSION!r}. "
            "Replay it with the release that wrote it, or explore again."
        )
    try:
        program = int(parts[1], 16)
        data = base64.b64decode(parts[2] + "=" * (-len(parts[2]) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise UsageError(_damaged(token)) from None
    if len(data) < 3 or _checksum(data[:-2]) != data[-2:]:
        raise UsageError(_damaged(token))
    return _read(program, _numbers(data[:-2]), token)


def check_program(schedule: Schedule, name: str) -> None:
    """Refuse to replay a schedule on another program.

    Raises:
        UsageError: when ``name`` is not the program that the schedule was recorded on.
    """
    got = fingerprint(name)
    if got != schedule.program:
        raise UsageError(
            f"the schedule was recorded on another program: expected fingerprint {schedule.program:08x}, "
            f"got {got:08x} for {name!r}. Name the program that the token was printed for."
        )


def _read(program: int, numbers: Iterator[int], token: str) -> Schedule:
    try:
        granularity, early, steps, failure, flags = (next(numbers) for _ in range(5))
        spurious, known = flags >> 1, flags & 1
        tape: list[int] = []
        arity: list[int] = []
        for zeros in numbers:
            tape += [0] * zeros + [next(numbers)]
            if known:
                arity.append(next(numbers))
        kind = GRANULARITIES[granularity]
        return Schedule(program, kind, early, steps, tuple(tape), tuple(arity), failure, spurious)
    except (ValueError, RuntimeError, StopIteration, IndexError, MemoryError):
        raise UsageError(_damaged(token)) from None


def _damaged(token: str) -> str:
    return f"damaged schedule token: {token[:40]!r} does not pass its checksum. Copy the whole token."


def _checksum(data: bytes | bytearray) -> bytes:
    return (zlib.crc32(data) & 0xFFFF).to_bytes(2, "big")


# A search writes a token for everything that it finds, and its bounds do not change.
@functools.lru_cache(maxsize=64)
def _head(granularity: str, early_timers: int, max_steps: int) -> bytes:
    return bytes([GRANULARITIES.index(granularity)]) + _varint(early_timers) + _varint(max_steps)


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
