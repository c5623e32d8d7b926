"""The parent of a soak's stages: one process that owns their namespace, their resource tracker and their end.

Stages are spawned from one multiprocessing parent, as an engine spawns them, so that they share one resource
tracker (W29). The parent is not the soak itself: it lives in the private /dev/shm, and when the soak is gone,
however that happened, it ends every stage and removes what the run's prefix owns.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import msgspec

from omni_verify.campaign import isolation
from omni_verify.campaign.soak.process import stage_main
from omni_verify.harness.soak.messages import StageOptions

__all__ = ["Exited", "LauncherOptions", "Ready", "Spawned", "main"]

_JOIN_S = 5.0


class LauncherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher needs to know: ``"mount"`` or ``"prefix"``, the run's prefix, the soak's socket."""

    isolation: str
    prefix: str
    link: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The namespace is entered; stages can be spawned."""


class Spawned(msgspec.Struct, frozen=True, tag=True):
    """A stage's process was started."""

    stage: int
    pid: int


class Exited(msgspec.Struct, frozen=True, tag=True):
    """A stage's process has ended; `code` is negative for a signal."""

    stage: int
    pid: int
    code: int


_OPTIONS = msgspec.msgpack.Decoder(StageOptions)


class _Launcher:
    def __init__(self, link: Connection) -> None:
        self._link = link
        self._context = multiprocessing.get_context("spawn")
        self._stages: dict[int, SpawnProcess] = {}

    def serve(self) -> None:
        """Spawn and reap until the soak closes the link."""
        while True:
            sentinels = {p.sentinel: n for n, p in self._stages.items()}
            for ready in multiprocessing.connection.wait([self._link, *sentinels]):
                if ready is not self._link:
                    self._reap(sentinels[ready])  # type: ignore[index]
                    continue
                try:
                    order = _OPTIONS.decode(self._link.recv_bytes())
                except (EOFError, OSError):
                    return
                self._spawn(order)

    def end(self) -> None:
        """Kill what lives."""
        for process in self._stages.values():
            with contextlib.suppress(OSError):
                process.kill()
        for process in self._stages.values():
            process.join(_JOIN_S)

    def _spawn(self, options: StageOptions) -> None:
        process = self._context.Process(target=stage_main, args=(options,), name=options.name)
        process.start()
        self._stages[options.stage] = process
        self._say(Spawned(options.stage, process.pid or 0))

    def _reap(self, stage: int) -> None:
        process = self._stages.pop(stage)
        process.join()
        self._say(Exited(stage, process.pid or 0, process.exitcode or 0))

    def _say(self, message: Spawned | Exited) -> None:
        with contextlib.suppress(OSError):  # the soak is gone: the next read says so
            self._link.send_bytes(msgspec.msgpack.encode(message))


def main(argv: list[str]) -> int:
    """Run ``FD OPTIONS``: the link to the soak, and `LauncherOptions` as JSON."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the soak decides; it may be gone, then its link says so
    options = msgspec.json.decode(argv[1], type=LauncherOptions)
    link = Connection(socket.socket(fileno=int(argv[0])).detach())
    os.set_inheritable(link.fileno(), False)
    launcher = _Launcher(link)
    try:
        isolation.enter(options.isolation, "", 0)
        with contextlib.suppress(OSError):  # the soak is gone already: the first read says so
            link.send_bytes(msgspec.msgpack.encode(Ready()))
        launcher.serve()
    finally:
        launcher.end()
        if options.isolation != "mount":
            isolation.sweep(options.prefix)
        with contextlib.suppress(OSError):  # the soak removes them itself, unless it was killed
            os.unlink(options.link)
            os.rmdir(os.path.dirname(options.link))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
