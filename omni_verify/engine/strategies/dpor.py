"""DPOR: dynamic partial-order reduction with sleep sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_verify.engine.control.failure import Abandon
from omni_verify.engine.control.ops import READS
from omni_verify.engine.control.run import Run
from omni_verify.engine.control.task import Task
from omni_verify.engine.control.threads import Thread
from omni_verify.engine.strategies.base import Strategy

__all__ = ["DPOR"]

# Operations whose whole effect is on their own object, so that a task may sleep before one. Everything
# else (wait drops a lock, notify moves waiters, a connector operation does anything) keeps its task awake.
_SIMPLE = READS | frozenset({"begin", "store", "setitem", "delitem", "append", "pop", "popleft", "add"})
_SIMPLE |= frozenset({"remove", "discard", "clear", "update", "acquire", "release", "put", "get", "set"})
# Kinds without any effect on another task.
_LOCAL = frozenset({"begin", "start", "yield", "end"})
_TAKES = frozenset({"acquire", "reacquire"})
_DROPS = frozenset({"release", "wait"})
_EVERYTHING = ("everything",)

# (location, is a write); the location holds an id, valid within one execution.
Access = tuple[Any, bool]
# Last access of a task by kind: task id, kind, is a write.
_Who = tuple[int, str, bool]


@dataclass(slots=True)
class _Node:
    """One decision of the current path."""

    enabled: list[int]
    chosen: int
    backtrack: set[int]
    sleep: set[int]
    done: dict[int, bool] = field(default_factory=dict)  # explored task -> may it sleep
    choice: int = 0  # number of values, for a data choice
    segment: int = -1  # index of the first transition after this decision


@dataclass(slots=True)
class _Transition:
    task: int
    kind: str
    accesses: list[Access]
    node: int  # decision that began the segment, -1 before the first
    simple: bool


class DPOR(Strategy):
    """Run one schedule of every equivalence class of schedules that differ only in independent operations.

    Flanagan, Godefroid, "Dynamic Partial-Order Reduction for Model Checking Software" (POPL 2005), with
    Godefroid's sleep sets. When `new_execution` has returned False, every final state and deadlock that is
    reachable *through the published operations* has been reached. Not promised: races on accesses that are
    not published (use granularity ``access``), early timers and spurious wake-ups (never chosen here),
    schedules after a failure. Two deviations, both on the safe side: a task sleeps only before an operation
    whose effect is confined to its object, and an operation on shared names outside Python's heap depends
    on everything.
    """

    name = "dpor"
    deviates = False

    def __init__(self, seed: int = 0) -> None:
        self.finished = False
        self.failed = False
        self._path: list[_Node] = []
        self._started = False
        self._rewind()

    def _rewind(self) -> None:
        self._at = 0
        self._transitions: list[_Transition] = []
        self._pinned: list[Any] = []  # objects stay alive, so that an id means one object
        self._pending: dict[int, list[Access]] = {}
        self._tasks = 1
        self._parents: dict[int, tuple[int, int]] = {}
        self._joins: dict[int, int] = {}
        self._last: Task | None = None
        self._gone = False
        self._unperformed: list[_Transition] = []

    def new_execution(self) -> bool:
        if self._started and not self._backtrack():
            self.finished = True
            return False
        self._started = True
        self._rewind()
        return True

    def _backtrack(self) -> bool:
        while self._path:
            node = self._path[-1]
            rest = sorted(node.backtrack - node.done.keys() - node.sleep)
            if rest:
                node.chosen = rest[0]
                return True
            self._path.pop()
        return False

    # -- during an execution ---------------------------------------------------------------------

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        if self._gone:
            raise Abandon  # operations in the ``finally`` blocks of an abandoned execution
        self._new_tasks()
        ids = [t.id for t in options[:ready]]
        if self._at == len(self._path):
            self._path.append(self._fresh_node(ids, current))
        node = self._path[self._at]
        node.segment = len(self._transitions)
        self._pending = {t.id: _accesses(t) for t in options[:ready]}
        self._pinned.extend(t.obj for t in options[:ready])
        self._at += 1
        return ids.index(node.chosen)

    def choose(self, n: int, what: str) -> int:
        if self._at == len(self._path):
            self._path.append(_Node(list(range(n)), 0, set(range(n)), set(), choice=n))
        node = self._path[self._at]
        node.segment = len(self._transitions)
        self._pending = {}  # a data choice wakes everybody: simple, and it costs little
        self._at += 1
        return node.chosen

    def observe(self, t: Task) -> None:
        self._new_tasks()
        accesses = _accesses(t)
        self._pinned.append(t.obj)
        simple = t.kind in _SIMPLE and t.deadline is None
        if t.kind == "join" and isinstance(t.obj, Thread) and t.obj._task is not None:
            self._joins[len(self._transitions)] = t.obj._task.id
        self._transitions.append(_Transition(t.id, t.kind, accesses, self._at - 1, simple))
        self._last = t

    def left_over(self, tasks: Sequence[Task]) -> None:
        # Operations that were published and never performed race as well: one of them may have been first.
        self._unperformed = [_Transition(t.id, t.kind, _accesses(t), -1, simple=False) for t in tasks]
        self._pinned.extend(t.obj for t in tasks)

    def _new_tasks(self) -> None:
        last = self._last
        if last is not None:
            for ident in range(self._tasks, len(last.sched.tasks)):
                self._parents[ident] = (last.id, len(self._transitions) - 1)
                self._transitions[-1].simple = False
            self._tasks = len(last.sched.tasks)
            if last.done:
                self._transitions[-1].simple = False

    def _fresh_node(self, ids: list[int], current: Task) -> _Node:
        sleep = self._inherited() & set(ids)
        awake = [ident for ident in ids if ident not in sleep]
        if not awake:
            self._gone = True
            raise Abandon
        chosen = current.id if current.id in awake else awake[0]
        return _Node(ids, chosen, {chosen}, sleep)

    def _inherited(self) -> set[int]:
        """Tasks that sleep after the last decision: explored before, independent of what has run since."""
        if not self._path or self._path[self._at - 1].choice:
            return set()
        above = self._path[self._at - 1]
        ran = [a for step in self._transitions[above.segment :] for a in step.accesses]
        asleep = above.sleep | {ident for ident, simple in above.done.items() if simple}
        asleep.discard(above.chosen)
        return {s for s in asleep if s in self._pending and not _conflict(self._pending[s], ran)}

    # -- after it --------------------------------------------------------------------------------

    def executed(self, run: Run) -> None:
        self._new_tasks()
        self.failed = self.failed or run.failure is not None
        del self._path[self._at :]
        self._find_races()
        for at, node in enumerate(self._path):
            following = self._path[at + 1].segment if at + 1 < len(self._path) else len(self._transitions)
            steps = self._transitions[node.segment : following]
            simple = len(steps) == 1 and steps[0].simple and not node.choice
            node.done.setdefault(node.chosen, simple and at + 1 < len(self._path))
        self._pinned.clear()
        self._last = None

    def _find_races(self) -> None:
        """Add a backtrack point before the first operation of every race of the execution."""
        steps = list(self._transitions)
        steps += self._unperformed
        clocks: dict[int, dict[int, int]] = {}
        stamps: list[dict[int, int]] = []  # clock of each transition
        seen: dict[Any, dict[_Who, int]] = {}
        executed = len(self._transitions)
        for j, step in enumerate(steps):
            clock = clocks.get(step.task)
            if clock is None:
                parent = self._parents.get(step.task)
                clock = clocks[step.task] = dict(stamps[parent[1]]) if parent and parent[1] >= 0 else {}
            if j in self._joins:
                _merge(clock, clocks.get(self._joins[j], {}))
            before = dict(clock)
            for location, write in step.accesses:
                for (task, kind, wrote), i in _relevant(seen, location):
                    if task == step.task or not (write or wrote):
                        continue
                    # The end of a critical section never races with the start of the next one: the pair is
                    # ordered by the lock. The section's start does, which is why `seen` keeps kinds apart.
                    ordered = kind in _DROPS and step.kind in _TAKES
                    if before.get(task, -1) < i and not ordered:
                        self._reverse(i, j, steps, stamps, before)
                    _merge(clock, stamps[i])
            if j >= executed:
                continue
            clock[step.task] = j
            stamps.append(dict(clock))
            for location, write in step.accesses:
                seen.setdefault(location, {})[(step.task, step.kind, write)] = j

    def _reverse(
        self, i: int, j: int, steps: list[_Transition], stamps: list[dict[int, int]], before: dict[int, int]
    ) -> None:
        """Make sure that the operation of transition j is also tried before transition i."""
        at = steps[i].node
        while at >= 0 and self._path[at].choice:
            at -= 1
        if at < 0:
            return
        node = self._path[at]
        racing = steps[j].task
        first = node.segment
        # Tasks that are enabled at the node and must run before transition j can.
        helpers = {racing} | {
            steps[k].task for k in range(first, len(stamps)) if before.get(steps[k].task, -1) >= k > i
        }
        candidates = helpers & set(node.enabled)
        if not candidates:
            node.backtrack.update(node.enabled)
        elif not candidates & node.backtrack:
            node.backtrack.add(racing if racing in candidates else min(candidates))

    def completeness(self) -> str:
        return (
            "every class of equivalent schedules, without early timers or spurious wake-ups"
            if self.finished and not self.failed
            else ""
        )


def _accesses(t: Task) -> list[Access]:
    """What the published operation of a task touches."""
    kind, obj, key = t.kind, t.obj, t.key
    if kind in _LOCAL:
        return []
    if kind == "until" or "." in kind:
        return [(_EVERYTHING, True)]
    if kind == "join":
        return []
    if kind == "wait" and hasattr(obj, "lock"):
        return [((id(obj), None), True), ((id(obj.lock), None), True)]
    where = (id(obj), key) if obj is not None else (None, key)
    return [(where, kind not in READS)]


def _relevant(seen: dict[Any, dict[_Who, int]], location: Any) -> list[tuple[_Who, int]]:
    if location == _EVERYTHING:
        return [entry for table in seen.values() for entry in table.items()]
    found = list(seen.get(location, {}).items())
    return found + list(seen.get(_EVERYTHING, {}).items())


def _conflict(a: list[Access], b: list[Access]) -> bool:
    return any((one in (two, _EVERYTHING) or two == _EVERYTHING) and (w or v) for one, w in a for two, v in b)


def _merge(into: dict[int, int], other: dict[int, int]) -> None:
    for task, at in other.items():
        if into.get(task, -1) < at:
            into[task] = at
