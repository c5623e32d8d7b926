"""Notice a task that blocks in C: name the call, interrupt it, make the verdict inconclusive.

The scheduler controls what it replaces. A real lock, socket or sleep that a task reaches anyway would stop
every task, because only one runs at a time. The watchdog is the one place of the engine that reads real time.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from omni_verify.engine.control.failure import Blocked

if TYPE_CHECKING:
    from omni_verify.engine.control.scheduler import Scheduler

__all__ = ["describe_block", "uncontrolled_threads", "watch"]

# The C function: `signal.signal` converts numbers to enumerations, which takes longer than all the rest here.
_handle: Callable[[int, Any], Any] = sys.modules["_signal"].signal
_INTERRUPT = int(signal.SIGUSR2)
# Looks at a scheduler within the time that it is allowed to make no progress.
_LOOKS = 4


class _Watched:
    """A scheduler, and when it last made progress."""

    __slots__ = ("caller", "main", "progress", "scheduler", "seconds", "since")

    def __init__(self, scheduler: Scheduler, seconds: float) -> None:
        self.scheduler, self.seconds = scheduler, seconds
        self.caller = threading.get_ident()
        self.main = self.caller == threading.main_thread().ident
        self.progress: tuple[int, int] | None = None
        self.since = 0.0

    def look(self, now: float) -> None:
        """Interrupt the scheduler when it has published nothing for too long."""
        s = self.scheduler
        progress = (s.runs, s.steps)
        if progress != self.progress or not s.running:
            self.progress, self.since = progress, now
        elif now - self.since >= self.seconds:
            s.uncontrolled.append(describe_block(self.caller, self.seconds))
            self.since = now
            if self.main:
                signal.pthread_kill(self.caller, _INTERRUPT)
            else:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.caller), ctypes.py_object(Blocked)
                )


class _Guard:
    """One thread for all searches of the process; it ends when there is nothing to watch any more.

    Starting a thread takes longer than a short search.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.watched: list[_Watched] = []
        self.sooner = threading.Event()
        self.thread: threading.Thread | None = None
        self.period = 0.0

    def add(self, one: _Watched) -> None:
        with self.lock:
            self.watched.append(one)
            if self.thread is None:
                self.period = one.seconds / _LOOKS
                self.thread = threading.Thread(target=self._guard, name="omni-verify-watchdog", daemon=True)
                self.thread.start()
            elif one.seconds / _LOOKS < self.period:
                self.period = one.seconds / _LOOKS
                self.sooner.set()

    def remove(self, one: _Watched) -> None:
        with self.lock:  # so that nobody is interrupted after it has left
            self.watched.remove(one)

    def end_idle(self) -> None:
        """End the thread unless something is watched: a process is best forked with one thread only."""
        with self.lock:
            if self.watched or self.thread is None:
                return
            thread, self.thread = self.thread, None
            self.sooner.set()
        thread.join()

    def _guard(self) -> None:
        idle = 0
        while True:
            self.sooner.wait(self.period)
            with self.lock:
                self.sooner.clear()
                idle = 0 if self.watched else idle + 1
                if self.thread is not threading.current_thread():
                    return
                if idle == _LOOKS:
                    self.thread = None
                    return
                now = time.monotonic()
                for one in self.watched:
                    one.look(now)
                self.period = min([one.seconds / _LOOKS for one in self.watched], default=self.period)


_guard = _Guard()


def _end_idle() -> None:
    _guard.end_idle()


def _forget_parent() -> None:
    global _guard
    _guard = _Guard()  # a fork copies no thread, and perhaps a lock that somebody held


os.register_at_fork(before=_end_idle, after_in_child=_forget_parent)


class watch:
    """Watch ``scheduler``, whose tasks run on the calling thread, while the context is open.

    When no operation is published for ``seconds`` (and at most a quarter more), the innermost line is
    added to ``scheduler.uncontrolled`` and `Blocked` is raised in the running task: through a signal when
    the caller is the main thread, which also interrupts system calls, else at the next bytecode.
    """

    __slots__ = ("_guard", "_one", "_previous")

    def __init__(self, scheduler: Scheduler, seconds: float) -> None:
        self._one = _Watched(scheduler, seconds)

    def __enter__(self) -> None:
        self._previous = _handle(_INTERRUPT, _raise_blocked) if self._one.main else None
        self._guard = _guard
        _guard.add(self._one)

    def __exit__(self, *exc: object) -> None:
        if self._guard is _guard:  # not so in a forked child
            _guard.remove(self._one)
        if self._one.main:
            _handle(_INTERRUPT, self._previous)


def describe_block(thread: int, seconds: float) -> str:
    """Name the innermost Python line of the OS thread with identity ``thread``."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return f"no progress for {seconds:g} s, and the thread is gone"
    last = traceback.extract_stack(frame)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno} in {last.name}"
    return f"blocked outside the engine's control for {seconds:g} s at {place}: {last.line}"


def uncontrolled_threads() -> list[str]:
    """Name the OS threads that a program started past the modelled primitives."""
    own = threading.main_thread(), threading.current_thread()
    return [
        f"thread {thread.name!r} runs outside the engine's control; instrument the module that starts it"
        for thread in threading.enumerate()
        if thread not in own and not thread.name.startswith("omni-verify")
    ] or ["a thread runs outside the engine's control"]


def _raise_blocked(signum: int, frame: FrameType | None) -> None:
    raise Blocked
