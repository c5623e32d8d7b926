"""Event gates over real threads: the scripted strategy.

`Gatekeeper` is the state machine: an arrival is granted when every declared predecessor is in the
trace, else it stays pending and is looked at again after each event. It does not care who waits, a
thread of this process or a peer process behind a pipe (`engine.peers`).

`ThreadRuntime` blocks the arriving thread until its grant. Every wait has a bound; when one runs
out, the wait-for graph with all stacks is taken, all gates are opened so that nothing stays blocked
or is left behind, and the run is cut: it can no longer be held.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from omni_verify.engine.order import PartialOrder
from omni_verify.engine.runtime import Cut
from omni_verify.engine.stacks import Wait, wait_for_graph
from omni_verify.trace.event import Event, Trace

__all__ = ["Gatekeeper", "ThreadRuntime"]

_QUIET = ("idle.", "poll.", "get.", "reap.", "lock.", "seg.open")
_IDLE_ROUNDS = 30


class _Pending:
    """One arrival that has not been granted."""

    def __init__(
        self, actor: str, point: str, key: str, detail: dict[str, object], grant: Callable[[Event], None]
    ) -> None:
        self.actor, self.point, self.key, self.detail, self.grant = actor, point, key, detail, grant
        self.thread_id = threading.get_ident()


class Gatekeeper:
    """Grants arrivals in an order that the partial order allows, and records them."""

    def __init__(self, order: PartialOrder, trace: Trace) -> None:
        self.order, self.trace = order, trace
        self.changed = threading.Condition(threading.RLock())
        self.pending: list[_Pending] = []
        self.opened = False

    def submit(
        self, actor: str, point: str, key: str, detail: dict[str, object], grant: Callable[[Event], None]
    ) -> None:
        """Ask for a passage; `grant` is called once, at once or after a later event."""
        with self.changed:
            item = _Pending(actor, point, key, detail, grant)
            if self._blocked(item):
                self.pending.append(item)
            else:
                self._pass(item)
                self._rescan()
            self.changed.notify_all()

    def open(self) -> None:
        """Grant everything from now on: the run is cut and only has to end."""
        with self.changed:
            self.opened = True
            self._rescan()
            self.changed.notify_all()

    def forget(self, actor: str) -> None:
        """Drop the pending arrivals of an actor that has died, and of its threads ``actor.*``."""
        with self.changed:
            self.pending = [
                p for p in self.pending if p.actor != actor and not p.actor.startswith(f"{actor}.")
            ]

    def waits(self) -> list[Wait]:
        """Return who waits at which gate for what."""
        with self.changed:
            return [
                Wait(
                    p.actor,
                    f"gate {p.point}({p.key})",
                    tuple(map(str, self.order.blockers(p.actor, p.point, p.key, self.trace))),
                    p.thread_id,
                )
                for p in self.pending
            ]

    def _blocked(self, item: _Pending) -> bool:
        return not self.opened and bool(self.order.blockers(item.actor, item.point, item.key, self.trace))

    def _pass(self, item: _Pending) -> None:
        item.grant(self.trace.append(item.actor, item.point, item.key, item.detail))

    def _rescan(self) -> None:
        progress = True
        while progress:
            progress = False
            for item in list(self.pending):
                if not self._blocked(item):
                    self.pending.remove(item)
                    self._pass(item)
                    progress = True


class ThreadRuntime:
    """Runs actors as real threads under a partial order (`engine.runtime.Runtime`)."""

    def __init__(
        self, order: PartialOrder, *, gate_s: float = 20.0, wait_s: float = 20.0, prefix: str = ""
    ) -> None:
        self.trace = Trace()
        self.keeper = Gatekeeper(order, self.trace)
        self.failures: dict[str, BaseException] = {}
        self.cut = ""
        self.stacks = ""
        self.inside: dict[str, str] = {}
        self._gate_s, self._wait_s, self._prefix = gate_s, wait_s, prefix
        self._names: dict[int, str] = {threading.get_ident(): "main"}
        self._threads: dict[str, threading.Thread] = {}
        self._unstarted: list[str] = []
        self._finished: list[str] = []
        self._waiting: dict[str, str] = {}

    # -- points -------------------------------------------------------------------------------

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Arrive at a point; blocks until its predecessors have happened or the run is cut."""
        actor = self.actor()
        done = threading.Event()
        self.keeper.submit(actor, point, key.removeprefix(self._prefix), detail, lambda _event: done.set())
        if done.is_set():
            return
        self._await(done.is_set, f"gate {point}({key.removeprefix(self._prefix)})", self._gate_s)

    def actor(self) -> str:
        """Name of the actor that the current thread is."""
        thread = threading.current_thread()
        return self._names.get(thread.ident or 0, thread.name)

    def name_thread(self, thread: object, name: str) -> None:
        """Say which actor a thread of the target is."""
        if isinstance(thread, threading.Thread):
            thread.name = name
            self._names[thread.ident or 0] = name

    # -- actors -------------------------------------------------------------------------------

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Declare an actor; it starts with `run`."""

        def main() -> None:
            self._names[threading.get_ident()] = name
            try:
                self.reach("actor.start", name)
                body()
            except Cut:
                return
            except BaseException as error:  # an actor's failure is evidence, not an accident
                self.failures[name] = error
            self._finished.append(name)
            self.reach("actor.end", name)

        self._threads[name] = threading.Thread(target=main, name=name, daemon=True)
        self._unstarted.append(name)

    def run(self) -> None:
        """Start the declared actors that have not started and wait until all have ended."""
        names, self._unstarted = self._unstarted, []
        for name in names:
            self._threads[name].start()
        self._await(
            lambda: not any(self._threads[n].is_alive() for n in names),
            f"end of {', '.join(names)}",
            self._gate_s + self._wait_s,
        )
        if self.cut:
            raise Cut(self.cut)

    def until(self, predicate: Callable[[], bool], what: str, bound_s: float | None = None) -> None:
        """Wait until `predicate()` is true; looked at after each event."""
        self._await(predicate, what, bound_s or self._wait_s)
        if self.cut and not predicate():
            raise Cut(self.cut)

    @property
    def actors(self) -> list[str]:
        """Actors that were declared."""
        return list(self._threads)

    @property
    def finished(self) -> list[str]:
        """Actors that ran to their end."""
        return list(self._finished)

    # -- bounds -------------------------------------------------------------------------------

    def _await(self, predicate: Callable[[], bool], what: str, bound: float) -> None:
        actor, changed = self.actor(), self.keeper.changed
        deadline = time.monotonic() + bound
        self._waiting[actor] = what
        seen = -1
        try:
            while not predicate():
                with changed:
                    if len(self.trace) == seen and not self.keeper.opened:
                        # The timeout re-reads conditions that no event announces (a thread has just ended).
                        changed.wait(0.05)
                    seen = len(self.trace)
                if self.keeper.opened:
                    return
                if time.monotonic() > deadline or self._starved():
                    self._expire(actor, what)
        finally:
            self._waiting.pop(actor, None)

    def _starved(self) -> bool:
        """Tell whether nothing can happen any more: every actor waits, the target only idles."""
        with self.keeper.changed:
            if not self.keeper.pending:
                return False
            gated = {p.actor for p in self.keeper.pending}
            live = {n for n, t in self._threads.items() if t.is_alive()}
            if live - gated - set(self._waiting):
                return False
            idle = 0
            for event in reversed(self.trace.events):
                if not event.point.startswith(_QUIET):
                    return False
                idle += event.point.startswith("idle.")
                if idle >= _IDLE_ROUNDS:
                    return True
            return False

    def _expire(self, actor: str, what: str) -> None:
        with self.keeper.changed:
            if self.cut:
                return
            waits = self.keeper.waits()
            if not what.startswith("gate "):
                waits.insert(0, Wait(actor, what, ()))
            gated = {w.actor for w in waits}
            live = [n for n, t in self._threads.items() if t.is_alive() and n not in gated]
            self.inside = {n: self._innermost(n) for n in live}
            self.stacks = wait_for_graph(waits, self.inside)
            needs = "; ".join(f"{w.actor} at {w.at} needs {', '.join(w.needs)}" for w in waits if w.needs)
            self.cut = f"{actor} waited in vain at {what}" + (f" ({needs})" if needs else "")
        self.keeper.open()

    def _innermost(self, actor: str) -> str:
        """The innermost operation that an actor has entered and not left, as text."""
        inside: list[str] = []
        for event in self.trace.events:
            if event.actor != actor:
                continue
            name, _, side = event.point.rpartition(".")
            if side == "enter":
                inside.append(f"{name}({event.key})")
            elif side == "exit" and inside:
                inside.pop()
        return inside[-1] if inside else ""
