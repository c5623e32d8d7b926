"""Notice a task that blocks in C: name the call, interrupt it, make the verdict inconclusive.

The scheduler controls what it replaces. A real lock, socket or sleep that a task reaches anyway would stop
every task, because only one runs at a time. The watchdog is the one place of the engine that reads real time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from omni_verify.engine.control.failure import Blocked

if TYPE_CHECKING:
    from omni_verify.engine.control.scheduler import Scheduler

__all__ = ["describe_block", "uncontrolled_threads", "watch"]


@contextlib.contextmanager
def watch(scheduler: Scheduler, seconds: float) -> Iterator[None]:
    """Watch ``scheduler``, whose tasks run on the calling thread, while the context is open.

    When no operation is published for ``seconds``, the innermost line is added to
    ``scheduler.uncontrolled`` and `Blocked` is raised in the running task: through a signal when the
    caller is the main thread, which also interrupts system calls, else at the next bytecode.
    """
    over = threading.Event()
    caller = threading.get_ident()
    main = threading.current_thread() is threading.main_thread()
    previous: Any = signal.signal(signal.SIGUSR2, _raise_blocked) if main else None

    def guard() -> None:
        seen: tuple[int, int] | None = None
        while not over.wait(seconds):
            progress = (scheduler.runs, scheduler.steps)
            if progress != seen or not scheduler.running:
                seen = progress
            elif main:
                scheduler.uncontrolled.append(describe_block(caller, seconds))
                signal.pthread_kill(caller, signal.SIGUSR2)
            else:
                scheduler.uncontrolled.append(describe_block(caller, seconds))
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), ctypes.py_object(Blocked))

    thread = threading.Thread(target=guard, name="omni-verify-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if main:
            signal.signal(signal.SIGUSR2, previous)


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
