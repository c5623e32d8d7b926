"""Who can go on, and what may happen instead: the options of every decision.

``ready`` holds, sorted by id, exactly the tasks whose published operation is enabled; primitives keep it so
incrementally (`enable`, `disable_all`) when their state changes. ``timed`` are the blocked tasks with a
timer, ``polled`` those that wait for a predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from omni_verify.engine.control import state
from omni_verify.engine.control.tape import encode
from omni_verify.engine.control.task import Task

__all__ = ["Agenda", "Pick", "fair_pick"]

# Index of the chosen option, see `Strategy.pick`.
Pick = Callable[[Sequence[Task], Task, int], int]


class Agenda:
    """The tasks of one execution by what they wait for, and its virtual clock.

    Besides "an enabled task goes on", a decision may offer two deviations, each within a budget of the
    execution: a timer fires early, and a waiter of a condition wakes although nobody notified it.
    """

    # Slots, here and in the scheduler: an object of so many attributes has a slow dictionary otherwise.
    __slots__ = (
        "early_fired",
        "early_left",
        "early_timers",
        "now",
        "pick",
        "polled",
        "ready",
        "special",
        "spurious_left",
        "spurious_wakeups",
        "tape",
        "tasks",
        "timed",
        "timers_fired",
    )

    def __init__(self, early_timers: int, spurious_wakeups: int) -> None:
        self.early_timers = early_timers
        self.spurious_wakeups = spurious_wakeups

    def _clear(self) -> None:
        self.tasks: list[Task] = []
        self.ready: list[Task] = []
        self.timed: list[Task] = []
        self.polled: list[Task] = []
        self.tape: list[int] = []
        self.pick: Pick = fair_pick
        self.now = 0.0
        self.timers_fired = 0
        self.early_fired = 0
        self.early_left = self.early_timers
        self.spurious_left = self.spurious_wakeups
        # Whether a decision needs `_choose`: a predicate to poll, or a deviation on offer.
        self.special = bool(self.spurious_left)

    # -- for primitives --------------------------------------------------------------------------

    def enable(self, w: Task) -> None:
        """The published operation of ``w`` has become possible."""
        if w.deadline is not None and not w.timed_out:
            self.untime(w)
        ready, ident = self.ready, w.id
        at = len(ready)
        while at and ready[at - 1].id > ident:
            at -= 1
        ready.insert(at, w)

    def enable_all(self, pend: list[Task]) -> None:
        """Every pending operation on a primitive has become possible."""
        ready = self.ready
        for w in pend:  # `enable`, written out
            if not w.timed_out:
                if w.deadline is not None:
                    self.untime(w)
                ident = w.id
                at = len(ready)
                while at and ready[at - 1].id > ident:
                    at -= 1
                ready.insert(at, w)

    def disable_all(self, pend: list[Task]) -> None:
        """No pending operation on a primitive is possible any more, except those that have timed out."""
        ready = self.ready
        for w in pend:
            if not w.timed_out:
                ready.remove(w)
                if w.deadline is not None:
                    self._add_timed(w)

    def fire(self, w: Task) -> None:
        """The timer of ``w`` ends its operation; whatever else happens, ``w`` stays enabled."""
        w.timed_out = True
        self.untime(w)
        self.ready.append(w)
        self.ready.sort(key=_by_id)

    def untime(self, w: Task) -> None:
        """Stop the timer of ``w``."""
        self.timed.remove(w)
        self._respecial()

    # -- decisions -------------------------------------------------------------------------------

    def _choose(self, t: Task) -> Task | None:
        """Decide who runs next, the general case; None when nobody ever can."""
        while True:
            options = self.ready
            if self.polled:
                met = self._met()
                options = sorted([*options, *met], key=_by_id) if met else options
            if not options and self.timed:
                self._advance(min(w.deadline for w in self.timed if w.deadline is not None))
                continue
            ready_count = len(options)
            timers = 0
            if ready_count and self.early_left and self.timed:
                timers = len(self.timed)
                options = options + self.timed
            if ready_count and self.spurious_left:
                options = options + self._waiters(options)
            if len(options) < 2:
                return options[0] if options else None
            i = self.pick(options, t, ready_count)
            self.tape.append(encode(i, options, t, ready_count))
            chosen = options[i]
            if i < ready_count:
                return chosen
            if i < ready_count + timers:
                self._fire_early(chosen)
            else:
                self.spurious_left -= 1
                self._respecial()
                chosen.waiting.wake(chosen)
            if chosen in self.ready:
                return chosen
            # A waiter that is awake still needs its condition's lock: somebody else goes first.

    def _met(self) -> list[Task]:
        """Tasks whose predicate holds now; reading a modelled object inside one is no point."""
        current, state.current = state.current, None
        try:
            return [w for w in self.polled if w.predicate is not None and w.predicate()]
        finally:
            state.current = current

    def _waiters(self, offered: Sequence[Task]) -> list[Task]:
        """Tasks that wait on a condition; one whose timer is on offer can wake early by that."""
        return [w for w in self.tasks if w.kind == "wake" and w.waiting is not None and w not in offered]

    def _fire_early(self, w: Task) -> None:
        """Let time run ahead to the timer of ``w``, as if everybody who could run had been slow."""
        self.early_left -= 1
        self.early_fired += 1
        assert w.deadline is not None
        self._advance(w.deadline)
        self._respecial()

    def _advance(self, to: float) -> None:
        """Let virtual time pass and fire every timer that is due."""
        self.now = max(self.now, to)
        for w in [w for w in self.timed if w.deadline is not None and w.deadline <= self.now]:
            self.timers_fired += 1
            if w.waiting is not None:
                w.waiting.expire(w)
            else:
                self.fire(w)

    def _add_timed(self, w: Task) -> None:
        self.timed.append(w)
        self.timed.sort(key=_by_id)
        self._respecial()

    def _respecial(self) -> None:
        self.special = bool(self.polled or (self.timed and self.early_left) or self.spurious_left)


def fair_pick(options: Sequence[Task], current: Task, ready: int) -> int:
    """Round robin over the ready tasks: fair, and the same in every replay."""
    for i in range(ready):
        if options[i].id > current.id:
            return i
    return 0


def _by_id(task: Task) -> int:
    return task.id
