"""The process of a soak's stage: loads the target, then commands in, rounds, news out."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection

import msgspec

from omni_verify.campaign import isolation
from omni_verify.harness.soak import inspect as soak_inspect
from omni_verify.harness.soak.messages import (
    Abort,
    Command,
    Figures,
    Forget,
    Hello,
    Inspect,
    Quiesce,
    Quiet,
    Report,
    StageOptions,
    Stop,
    Submit,
    decode_command,
    encode,
)
from omni_verify.harness.soak.stage import SoakStage
from omni_verify.targets.protocol import Target

__all__ = ["stage_main"]

FIRST_WAIT_S, LONGEST_WAIT_S, IDLE_WAIT_S = 0.0005, 0.004, 0.1
"""Sleeps of a stage that waits for chunks (the first, doubled up to the longest) and of one with no request;
a command ends each."""
REST_ROUNDS = 4
"""Idle rounds of the save thread without a change after which what a stage still keeps is left behind; a
connector looks for consumed keys in portions, one a round (I23)."""
_SHOWN = 8


def stage_main(options: StageOptions) -> None:
    """Run a stage until it is told to stop or the soak is gone."""
    launcher = multiprocessing.parent_process()
    isolation.die_with_parent(launcher.pid if launcher and launcher.pid else os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True, chain=False)
    faulthandler.dump_traceback_later(options.load_s, exit=True)
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    target = _load(options)
    faulthandler.cancel_dump_traceback_later()
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(options.link)
        link = Connection(door.detach())
    _Loop(SoakStage(target, options), link, options).run(msgspec.msgpack.encode(target.info))


def _load(options: StageOptions) -> Target:
    import omni_verify.faults.mutants  # noqa: F401 - registers the variants of the reference
    from omni_verify.targets import resolve

    target = resolve(options.spec, loader=options.loader)
    target.prepare()
    target.load()
    return target


class _Loop:
    """Commands, a round, news; the thread that calls `run` is the stage's scheduler thread."""

    def __init__(self, stage: SoakStage, link: Connection, options: StageOptions) -> None:
        self._stage, self._link, self._options = stage, link, options
        self._stopping = False
        self._resting: tuple[int, int] | None = None
        self._kept = -1

    def run(self, info: bytes) -> None:
        """Run until stopped; the end of the link is a stop too."""
        try:
            self._say(Hello(self._options.stage, os.getpid(), info))
            pause = FIRST_WAIT_S
            while not self._stopping:
                moved = self._stage.round()
                if self._resting is not None:
                    self._rest(*self._resting)
                news = self._stage.news()
                if news is not None:
                    self._say(news)
                pause = FIRST_WAIT_S if moved or news else min(2 * pause, LONGEST_WAIT_S)
                wait = 0.0 if moved else pause if self._stage.busy or self._resting else IDLE_WAIT_S
                self._obey(wait)
            self._stage.shutdown()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._stage.shutdown()

    def _obey(self, wait: float) -> None:
        while not self._stopping and self._link.poll(wait):
            self._apply(decode_command(self._link.recv_bytes()))
            wait = 0.0

    def _apply(self, command: Command) -> None:
        match command:
            case Submit(plans):
                self._stage.submit(plans)
            case Abort(indices, at_once):
                self._stage.abort(indices, at_once=at_once)
            case Forget(indices, release):
                self._stage.forget(indices, release=release)
            case Quiesce(number):
                self._resting, self._kept = (number, self._stage.siege.mark()), -1
            case Inspect():
                self._inspect(command)
            case Stop():
                self._stopping = True

    def _inspect(self, command: Inspect) -> None:
        if command.trim or command.collect:
            soak_inspect.collect(trim=command.trim)
        began = time.perf_counter()
        values = soak_inspect.measure(self._stage.adapter, self._options.prefix)
        values["inspect_s"] = time.perf_counter() - began
        self._say(Figures(command.number, values))

    def _rest(self, number: int, mark: int) -> None:
        """Answer a `Quiesce` when the save thread has done all, and has had its rounds to forget the rest."""
        siege, adapter = self._stage.siege, self._stage.adapter
        if not siege.drained(mark) or self._stage.busy:
            return
        if self._kept >= 0 and siege.rounds_since(mark) < REST_ROUNDS and adapter.save_thread.is_alive():
            return
        entries = soak_inspect.run_entries(adapter, self._options.prefix)
        if entries and len(entries) != self._kept and adapter.save_thread.is_alive():
            self._resting, self._kept = (number, siege.mark()), len(entries)
            return
        self._resting = None
        counts: dict[str, int] = {}
        shown: dict[str, list[str]] = {}
        for entry in entries:
            counts[entry.container] = counts.get(entry.container, 0) + 1
            shown.setdefault(entry.container, []).append(entry.item)
        threads = (adapter.save_thread, adapter.recv_thread)
        self._say(
            Quiet(
                number=number,
                counts=counts,
                entries={name: items[:_SHOWN] for name, items in shown.items()},
                dead=[t.name for t in threads if not t.is_alive()],
            )
        )

    def _say(self, report: Report) -> None:
        self._link.send_bytes(encode(report))
