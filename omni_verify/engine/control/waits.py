"""Who waits for whom: labels of operations, source lines, and the explanation of a run that is stuck."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from omni_verify.engine import access_sites
from omni_verify.engine.control.failure import Failure

if TYPE_CHECKING:
    from types import FrameType

    from omni_verify.engine.control.execution import Execution
    from omni_verify.engine.control.task import Task

__all__ = ["explain_block", "label", "name_of", "source_line"]

_ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Frames of these files are never "the line of the program" that performed an operation.
_PLUMBING = (_ENGINE, os.path.dirname(os.__file__) + os.sep + "threading.py")


def name_of(obj: Any, names: dict[str, Any]) -> str:
    """Name an object the same way in every replay: class and number in order of first appearance."""
    if obj is None:
        return ""
    if isinstance(obj, str):
        return obj
    kind = type(obj).__name__
    if getattr(type(obj), "modelled", False):
        serial: int = obj.serial
        if not serial:
            return str(
                obj.name
            )  # threads have names of their own f"{kind}#{serial}" if serial > 0 else f"{kind}#g{-serial}"
    if isinstance(obj, type):
        return obj.__name__
    known = names.setdefault("objects", {})
    if id(obj) not in known:
        # The object is kept with its number, so that its id cannot be used again within the run.
        count = names[kind] = names.get(kind, 0) + 1
        known[id(obj)] = (f"{kind}#{count}", obj)
    return str(known[id(obj)][0])


def label(t: Task, names: dict[str, Any] | None = None) -> str:
    """The target of a task's published operation, for example ``Lock#2`` or ``Counter#1.n``.

    ``names`` numbers objects by first appearance; the run's own by default.
    """
    name = name_of(t.obj, t.sched.names if names is None else names)
    if t.key is None:
        return name
    return f"{name}.{t.key}" if name else str(t.key)


def source_line(t: Task) -> str:
    """``file.py:12`` of the program line that performs the operation; empty when there is none."""
    if t.site:
        return access_sites.SITES[t.site]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PLUMBING):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def explain_block(s: Execution, *, livelock: bool = False) -> Failure:
    """Describe a run in which nobody can go on (or, for a livelock, in which nobody gets done)."""
    stuck = [t for t in s.tasks if not t.done]
    lines = [_wait_line(t) for t in stuck]
    cycle = _cycle(stuck)
    if cycle:
        lines.append("cycle: " + " -> ".join(t.name for t in [*cycle, cycle[0]]))
    lost = [line for t in stuck if (line := _lost_wakeup(t))]
    lines += lost
    if livelock:
        kind, what = (
            "livelock",
            f"not finished after {s.steps} steps, {s.steps - s.max_steps} of them under a fair choice",
        )
    elif lost:
        kind, what = "lost-wakeup", "a task waits for a wake-up that was sent before it waited"
    elif s.tasks[0].done:
        kind, what = (
            "leaked-thread",
            "the program ended, but a thread that is not a daemon is blocked for ever",
        )
    else:
        kind, what = "deadlock", "every task is blocked"
    waits = [t for t in stuck if not (t.daemon and livelock)]
    who = "; ".join(
        sorted(f"{t.name}:{t.kind}({type(t.obj).__name__ if t.obj is not None else ''})" for t in waits)
    )
    # Whether a wake-up was lost is an explanation; the same tasks blocked at the same places are one failure.
    identity = f"{'livelock' if livelock else 'blocked'}: {who}"
    return Failure(kind, identity, f"{kind}: {what}", stuck[0].name if stuck else "", "\n".join(lines))


def _owner(t: Task) -> Task | None:
    """The task that ``t`` waits for, when one task alone can let it go on."""
    owner = getattr(t.obj, "owner", None)
    return owner if owner is not None and hasattr(owner, "sched") else None


def _wait_line(t: Task) -> str:
    text = f"{t.name} ({'daemon' if t.daemon else 'thread'}) at {t.kind} {label(t)}".rstrip()
    owner = _owner(t)
    if owner is not None and owner is not t:
        text += f", held by {owner.name}" + (" (ended)" if owner.done else "")
    if t.deadline is not None:
        text += f", timer at {t.deadline:g} s"
    return text


def _cycle(stuck: list[Task]) -> list[Task]:
    for start in stuck:
        seen: list[Task] = []
        at: Task | None = start
        while at is not None and at not in seen:
            seen.append(at)
            at = _owner(at)
        if at is not None and len(seen) > seen.index(at) + 1:
            return seen[seen.index(at) :]
    return []


def _lost_wakeup(t: Task) -> str:
    lost = getattr(t.obj, "lost", None)
    if t.kind != "wake" or lost is None:
        return ""
    step, name = lost
    return f"lost wakeup: {name} notified {label(t)} at step {step}, when nobody waited on it"
