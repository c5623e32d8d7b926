"""A fuzzed program: operations, nemeses and stages; and its text form in tokens."""

from __future__ import annotations

import base64
import zlib

import msgspec

from omni_verify.errors import UsageError
from omni_verify.harness.fuzz.rules import Op, Rules

__all__ = ["Program"]


class Program(msgspec.Struct, frozen=True, array_like=True):
    """What one fuzzed run does.

    Attributes:
        ops: the operations; each actor does its own in this order, actors meet only where it says so.
        nemeses: names of those that may strike.
        chunk: frames that make a chunk; 0 for one chunk an output.
        connector: ``"other"`` for a connector of another class, empty for the one under test.
        stages: 2: talker and code2wav; 3: a thinker feeds the talker, which then receives and sends.
    """

    ops: tuple[Op, ...]
    nemeses: tuple[str, ...] = ()
    chunk: int = 0
    connector: str = ""
    stages: int = 2

    def encode(self) -> str:
        """Text form for tokens: base64url of the compressed program."""
        packed = zlib.compress(msgspec.msgpack.encode(self), 9)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Program:
        """Read what `encode` wrote.

        Raises:
            UsageError: it is damaged, or no legal program.
        """
        try:
            packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            program = msgspec.msgpack.decode(zlib.decompress(packed), type=cls)
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            raise UsageError(
                f"not a fuzzed program: {text[:40]!r} ({error}). Copy the whole token."
            ) from None
        if not Rules.legal(program.ops, program.stages):
            raise UsageError(f"the program breaks its own rules: {' '.join(map(str, program.ops))}")
        return program

    def __str__(self) -> str:
        return " ".join(map(str, self.ops))
