"""The third carrier: actors as real processes, stepped over pipes at connector operations.

Each actor's task stays in this process as a proxy. The child runs the body; when it reaches a point it
writes the point to its pipe and stops; the proxy publishes the same operation to the scheduler and answers
when it is chosen. So one process runs at a time, the strategy cannot tell the difference, and one tape
gives one sequence of points on every carrier. Inside a child nothing finer than a connector operation is
controlled.
"""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.failure import Mistake
from omni_verify.engine.control.runtime import ControlledRuntime

__all__ = ["ActorDied", "ProcessRuntime"]

# Seconds of real time within which a child must reach its next point.
_STEP_S = 30.0


class ActorDied(RuntimeError):
    """A child process ended without saying so, or did not reach its next point in time."""


class ProcessRuntime(ControlledRuntime):
    """A `ControlledRuntime` whose actors run in forked processes.

    Actor bodies share nothing but files and shared memory. ``until`` and ``choose`` work in a child; the
    predicate of ``until`` is evaluated in the child, once each time the actor is chosen; such an actor is
    never blocked, so virtual time stands still and the step bound alone ends a wait in vain.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pipe: Connection | None = None  # set in a child

    def _actor(self, name: str, body: Callable[[], object]) -> Callable[[], None]:
        return super()._actor(name, lambda: self._drive(name, body))

    def _drive(self, name: str, body: Callable[[], object]) -> None:
        """Fork the child and serve its requests until it has ended."""
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            # CPython warns about forking with other threads alive; the child uses none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            ours.close()
            self._child(theirs, body)
        theirs.close()
        error = None
        try:
            while (request := _receive(ours, name))[0] != "end":
                ours.send(self._serve(*request))
            error = request[1]
        except BaseException:
            os.kill(
                pid, signal.SIGKILL
            )  # aborted in the middle: whatever the body would do now is not wanted
            raise
        finally:
            ours.close()
            os.waitpid(pid, 0)
        if error is not None:
            raise error

    def _serve(self, verb: str, *arguments: Any) -> Any:
        if verb == "reach":
            point, key, detail = arguments
            return ControlledRuntime.reach(self, point, key, **detail)
        if verb == "choose":
            return ControlledRuntime.choose(self, *arguments)
        # Not met yet: let the others go on, and ask the child again.
        t = state.current
        t.kind, t.obj, t.key, t.site = "until", None, arguments[0], 0
        return t.sched.point(t)

    def _child(self, pipe: Connection, body: Callable[[], object]) -> None:
        """Run the body in the child process; does not return."""
        state.current = None
        self._pipe = pipe
        error: BaseException | None = None
        try:
            body()
        except BaseException as exc:
            error = _portable(exc)
        try:
            pipe.send(("end", error))
            pipe.close()
        finally:
            os._exit(0)

    def _ask(self, *request: Any) -> Any:
        assert self._pipe is not None
        self._pipe.send(request)
        return self._pipe.recv()

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        if self._pipe is None:
            super().reach(point, key, **detail)
        else:
            self._ask("reach", point, key, detail)

    def choose(self, n: int, what: str) -> int:
        chosen: int = super().choose(n, what) if self._pipe is None else self._ask("choose", n, what)
        return chosen

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float | None = None) -> None:
        if self._pipe is None:
            super().until(predicate, what, bound_s)
            return
        while not predicate():
            self._ask("until", what)


def _receive(pipe: Connection, name: str) -> Any:
    try:
        if not pipe.poll(_STEP_S):
            raise ActorDied(f"actor {name!r} did not reach its next point within {_STEP_S:g} s.")
        return pipe.recv()
    except (EOFError, ConnectionResetError):
        raise ActorDied(f"the process of actor {name!r} ended without reaching its end.") from None


def _portable(exc: BaseException) -> BaseException:
    """The exception itself when it can be sent to the parent, else one with the same text."""
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:
        return Mistake(f"{type(exc).__name__}: {exc}")
    return exc
