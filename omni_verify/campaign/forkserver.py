"""The process that loads a target once and forks one child per job.

Started by `campaign.zygote.Zygote` in a fresh interpreter, because the modules of two releases
collide. It stays single-threaded and only forks, waits and kills, so that nothing a target does in
a child can reach the next job. A child writes its answer to an anonymous memory file instead of a
pipe: no reader is needed while it runs, and a child that dies half-way leaves no valid answer.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from omni_verify.campaign import isolation, wire
from omni_verify.errors import OmniVerifyError, TargetUnusableError
from omni_verify.targets.protocol import Target

__all__ = ["main"]

STACKS_GRACE_S = 2.0
"""Seconds that a hanging child gets to write its stacks before it is killed."""
OUTPUT_LIMIT = 64 * 1024
"""Bytes kept of what a child wrote to stdout and stderr."""
_RESULT, _ERROR = b"R", b"E"


class _Child(msgspec.Struct, kw_only=True):
    job: wire.Job
    pid: int
    result: int
    output: int
    started: float
    deadline: float
    asked: bool = False
    timed_out: bool = False


def entry_point(text: str) -> Callable[..., Any]:
    """Import ``module:function``."""
    module, _, name = text.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def run_job(target: Target, job: wire.Job, mode: str, result: int) -> None:
    """Run a job in this process and write its answer to the descriptor `result`."""
    try:
        isolation.enter(mode, job.shm_options, job.namespace_of)
        context = wire.JobContext(prefix=job.prefix, isolation=mode)
        answer = _RESULT + entry_point(job.entry)(target, job.params, context)
    except BaseException:
        answer = _ERROR + traceback.format_exc().encode()
    with open(result, "wb", closefd=False) as file:
        file.write(answer)


class _Server:
    """Single-threaded loop over the control socket and the children."""

    def __init__(self, control: socket.socket, start: wire.Start, target: Target, mode: str) -> None:
        self.control = control
        self.start_message = start
        self.target = target
        self.mode = mode
        self.children: dict[int, _Child] = {}

    def serve(self) -> None:
        """Fork, wait and kill until the other end closes the socket."""
        awake, waker = os.pipe()
        for end in (awake, waker):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(awake, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(self._patience())}
                if awake in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(awake, 4096)
                if self.control in ready:
                    message = wire.receive(self.control)
                    if not isinstance(message, wire.Job):
                        return
                    self._fork(message)
                self._reap()
                self._expire()

    def end(self) -> None:
        """Kill every child and remove what their prefixes own."""
        for child in self.children.values():
            _kill_group(child.pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
            if self.mode == "prefix":
                isolation.sweep(child.job.prefix)
        self.children.clear()

    def _patience(self) -> float | None:
        if not self.children:
            return None
        return max(0.0, min(c.deadline for c in self.children.values()) - time.monotonic())

    def _fork(self, job: wire.Job) -> None:
        result, output = (os.memfd_create(f"omni-verify-{n}", 0) for n in ("result", "output"))
        fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)  # a job and its peers write to it
        sys.stdout.flush()
        sys.stderr.flush()
        now, parent = time.monotonic(), os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_child(job, result, output, parent)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self.children[pid] = _Child(
            job=job, pid=pid, result=result, output=output, started=now, deadline=now + job.limit_s
        )

    def _become_child(self, job: wire.Job, result: int, output: int, parent: int) -> None:
        status = 0
        try:
            os.setpgid(0, 0)
            isolation.die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if not self.target.capabilities.forkable:
                _run_fresh(self.start_message, job, self.mode, result)
            self.control.close()
            _arm_stacks()
            run_job(self.target, job, self.mode, result)
        except BaseException:
            traceback.print_exc()
            status = 70
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.pop(pid, None)  # None: an orphaned peer of an earlier child
            if child is not None:
                self._answer(child, status)

    def _answer(self, child: _Child, status: int) -> None:
        _kill_group(child.pid)  # peers that the job forked and did not end
        if self.mode == "prefix":
            isolation.sweep(child.job.prefix)
        raw, output = _drain(child.result), _drain(child.output)
        clean = os.WIFEXITED(status)
        wire.send(
            self.control,
            wire.Outcome(
                number=child.job.number,
                payload=raw[1:] if clean and raw.startswith(_RESULT) else None,
                error=raw[1:].decode(errors="replace") if raw.startswith(_ERROR) else "",
                signal=0 if clean else os.WTERMSIG(status),
                status=os.WEXITSTATUS(status) if clean else 0,
                timed_out=child.timed_out,
                output=output[-OUTPUT_LIMIT:].decode(errors="replace"),
                duration_s=time.monotonic() - child.started,
            ),
        )

    def _expire(self) -> None:
        now = time.monotonic()
        for child in self.children.values():
            if now < child.deadline:
                continue
            if not child.asked:
                child.asked, child.deadline = True, now + STACKS_GRACE_S
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGUSR1)
            else:
                child.timed_out, child.deadline = True, now + STACKS_GRACE_S
                _kill_group(child.pid)


def _arm_stacks() -> None:
    """Write all stacks to stderr on a crash, and on SIGUSR1 when the job is ended at its limit."""
    faulthandler.enable(file=2, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True, chain=False)


def _run_fresh(start: wire.Start, job: wire.Job, mode: str, result: int) -> None:
    """Replace this child by a fresh interpreter that loads the target itself (not forkable targets)."""
    order = msgspec.msgpack.encode((start, job, mode)).hex()
    os.execv(sys.executable, [sys.executable, "-m", __spec__.name, "--once", str(result), order])


def _run_once(result: int, order: str) -> None:
    start, job, mode = msgspec.msgpack.decode(bytes.fromhex(order), type=tuple[wire.Start, wire.Job, str])
    _arm_stacks()
    run_job(_load(start, lambda: None), job, mode, result)
    os._exit(0)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _drain(fd: int) -> bytes:
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()


def _load(start: wire.Start, prepared: Callable[[], None]) -> Target:
    target: Target = entry_point(start.resolver)(start.spec, loader=start.loader)
    target.prepare()
    prepared()
    faulthandler.dump_traceback_later(start.load_s, exit=True)
    target.load()
    if start.catalogue:
        from omni_verify.harness.scenario import load_catalogue

        load_catalogue(start.catalogue)
    faulthandler.cancel_dump_traceback_later()
    return target


def _refusal(error: Exception, spec: str) -> wire.Refused:
    if isinstance(error, OmniVerifyError):
        return wire.Refused(message=str(error), exit_code=error.exit_code)
    traceback.print_exc()
    text = f"the target {spec!r} failed to load: {type(error).__name__}: {error}"
    return wire.Refused(message=text, exit_code=TargetUnusableError.exit_code)


def main(argv: list[str]) -> int:
    """Run ``FD`` (the control socket), or ``--once FD ORDER`` for a target that must not be forked."""
    if argv[0] == "--once":
        _run_once(int(argv[1]), argv[2])
    control = socket.socket(fileno=int(argv[0]))
    os.set_inheritable(control.fileno(), False)
    isolation.adopt_orphans()
    start = wire.receive(control)
    if not isinstance(start, wire.Start):
        return 0
    try:
        mode, reason = isolation.choose(start.isolation)
        target = _load(start, lambda: wire.send(control, wire.Prepared()))
        wire.send(control, wire.Ready(info=target.info, isolation=mode, reason=reason))
    except Exception as error:
        wire.send(control, _refusal(error, start.spec))
        return 1
    server = _Server(control, start, target, mode)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.serve()
    finally:
        server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
