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
_QUIET_OPERATIONS = ("poll", "get", "reap", "lock", "seg.open")
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

    def passes(self, actor: str, point: str, key: str, detail: dict[str, object]) -> bool:
        """Grant and record an arrival that nothing holds back; False leaves it to `submit`."""
        with self.changed:
            if not self.opened and self.order.blockers(actor, point, key, self.trace):
                return False
            self.trace.append(actor, point, key, detail)
            if self.pending:
                self._rescan()
            self.changed.notify_all()
            return True

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
        self._main = threading.current_thread()
        self._threads: dict[str, threading.Thread] = {}
        self._unstarted: list[str] = []
        self._finished: list[str] = []
        self._waiting: dict[str, tuple[str, Callable[[], bool]]] = {}

    # -- points -------------------------------------------------------------------------------

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Arrive at a point; blocks until its predecessors have happened or the run is cut."""
        actor, key = self.actor(), key.removeprefix(self._prefix)
        if self.keeper.passes(actor, point, key, detail):
            return
        done = threading.Event()
        self.keeper.submit(actor, point, key, detail, lambda _event: done.set())
        self._await(done.is_set, f"gate {point}({key})", self._gate_s)

    def actor(self) -> str:
        """Name of the actor that the current thread is."""
        thread = threading.current_thread()
        # By the thread, never by its number: the system gives the number of an ended thread to the next one.
        return "main" if thread is self._main else thread.name

    def name_thread(self, thread: object, name: str) -> None:
        """Say which actor a thread of the target is."""
        if isinstance(thread, threading.Thread):
            thread.name = name

    # -- actors -------------------------------------------------------------------------------

    def spawn(self, name: str, body: Callable[[], object]) -> None:
        """Declare an actor; it starts with `run`."""

        def main() -> None:
            try:
                self.reach("actor.start", name)
                body()
            except Cut:
                return
            except BaseException as error:  # an actor's failure is evidence, not an accident
                if not self.cut:  # after the cut the gates were opened by force: that is our doing
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
        self._waiting[actor] = (what, predicate)
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
                if self._starved() or (time.monotonic() > deadline and not predicate()):
                    self._expire(actor, what)
        finally:
            self._waiting.pop(actor, None)

    def _starved(self) -> bool:
        """Tell whether nothing can happen any more: every actor waits in vain, the target only idles.

        It only shortens a wait that its bound would end anyway, so it errs on the side of "no": a slow
        thread, a peer process, or a waiter that has not noticed yet that it may go on all count as life.
        """
        with self.keeper.changed:
            gated, waiting = {p.actor for p in self.keeper.pending}, set(self._waiting)
            if not gated or self._live() - gated - waiting:
                return False
            window = self._idle_window()
            if not window:
                return False
            moving = {e.actor for e in window}
            for actor in {e.actor for e in self.trace.events} - gated - waiting:
                inside = self._innermost(actor)
                if inside and not (actor in moving and inside.startswith(_QUIET_OPERATIONS)):
                    return False
            return not any(predicate() for _what, predicate in list(self._waiting.values()))

    def _live(self) -> set[str]:
        """Whoever runs a program of its own: the scenario, its actors, its peer processes."""
        started, ended = ({e.key for e in self.trace.at(f"process.{x}")} for x in ("start", "end"))
        return {"main", *(started - ended), *(n for n, t in self._threads.items() if t.is_alive())}

    def _idle_window(self) -> list[Event]:
        """The last events when they are idle rounds and vain polls only, and enough of them; else none."""
        idle, events = 0, self.trace.events
        for at in range(len(events) - 1, -1, -1):
            if not events[at].point.startswith(_QUIET):
                return []
            idle += events[at].point.startswith("idle.")
            if idle >= _IDLE_ROUNDS:
                return events[at:]
        return []

    def _expire(self, actor: str, what: str) -> None:
        with self.keeper.changed:
            if self.cut:
                return
            waits = self.keeper.waits()
            gated = {w.actor for w in waits}
            others = {a: w for a, (w, _) in list(self._waiting.items()) if a not in gated}
            # Who waits for a condition of the scenario is blocked by us, not by the target.
            waits = [Wait(a, w, ()) for a, w in sorted(others.items(), key=lambda x: x[0] != actor)] + waits
            live = [n for n, t in self._threads.items() if t.is_alive() and n not in gated | others.keys()]
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
