"""How the two ends of a pair keep in step: meetings, carried by the campaign.

The ends are processes of two different zygotes, which share no descriptor. Each connects to a socket
of the campaign; the campaign passes on what they say, so that the death of one is the end of the
other's wait and no wait of a meeting can outlive its bound.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Self

import msgspec

__all__ = ["Link", "LinkLost", "Relay"]

ACCEPT_S = 0.05
"""Seconds between two looks at whether an end died before it connected."""


class LinkLost(Exception):
    """The other end has ended, or did not come to a meeting within the bound."""


class Link:
    """One end's connection to the other end.

    Args:
        path: socket of the `Relay`.
        bound_s: seconds that this end waits at a meeting.
    """

    def __init__(self, path: str, bound_s: float) -> None:
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(path)
            self._connection = Connection(door.detach())
        self._bound_s = bound_s

    def meet(self, name: str, word: bytes = b"") -> bytes:
        """Wait until the other end is at the same meeting; exchange a word.

        Raises:
            LinkLost: it ended before, or did not come in time.
        """
        try:
            self._connection.send_bytes(msgspec.msgpack.encode((name, word)))
            if not self._connection.poll(self._bound_s):
                raise LinkLost(f"the other end did not reach {name!r} within {self._bound_s:g} s")
            other, answer = msgspec.msgpack.decode(self._connection.recv_bytes(), type=tuple[str, bytes])
        except (EOFError, OSError):
            raise LinkLost(f"the other end ended before {name!r}") from None
        if other != name:
            raise RuntimeError(f"the ends are out of step: one is at {name!r}, the other at {other!r}")
        return answer

    def close(self) -> None:
        """Let the other end know that this one comes to no further meeting."""
        self._connection.close()


class Relay:
    """The campaign's side: carries words between the two ends of one case.

    Args:
        path: socket to listen on; removed at the end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(path)
        self._door.listen(2)
        self._door.settimeout(ACCEPT_S)

    def carry(self, ended: Callable[[], bool], bound_s: float) -> None:
        """Carry until an end closes, dies, or says nothing for `bound_s` seconds.

        Args:
            ended: tells whether an end has ended; asked while not both have connected.
            bound_s: seconds.
        """
        ends: list[Connection] = []
        deadline = time.monotonic() + bound_s
        try:
            while len(ends) < 2:
                with contextlib.suppress(TimeoutError):
                    ends.append(Connection(self._door.accept()[0].detach()))
                    continue
                if ended() or time.monotonic() > deadline:
                    return
            while _exchange(ends, bound_s):
                pass
        finally:
            for end in ends:
                end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        os.unlink(self.path)


def _exchange(ends: list[Connection], bound_s: float) -> bool:
    """Take one word from each end and hand it to the other; False when one has nothing more to say."""
    words: dict[int, bytes] = {}
    try:
        while len(words) < 2:
            silent = [end for n, end in enumerate(ends) if n not in words]
            ready = wait(silent, bound_s)
            if not ready:
                return False
            words |= {n: end.recv_bytes() for n, end in enumerate(ends) if end in ready}
        for n, end in enumerate(ends):
            end.send_bytes(words[1 - n])
    except (EOFError, OSError):
        return False
    return True
