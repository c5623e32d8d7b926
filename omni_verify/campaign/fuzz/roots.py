"""Root causes: which failures of a fuzzing run come from one defect.

Two failures have one root cause when they break the same contract where the same pair of operations meets
at the same place in the target's code. What one smallest run breaks has one root cause anyway: it is one
failure with several identities, and it joins the root causes of all of them. Objects and bookkeeping that are
left behind tell two defects apart only where nothing else is broken: most defects leave some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omni_verify.faults.nemeses import Strike
from omni_verify.trace.event import Event

if TYPE_CHECKING:
    from omni_verify.campaign.fuzz.fuzzing import FuzzFailure

__all__ = ["operation_pair", "place", "roots"]

_CALLS = frozenset({"put", "get", "proc", "reap", "cleanup"})
"""Operations in which a nemesis can strike."""
_MEETING = frozenset({"put", "get", "proc", "save", "abort", "commit", "release", "close", "shutdown"})
"""Operations that can meet on a stream; a get that found nothing is none."""
_RESIDUE = ("I23:", "I39:", "I51:", "I52:", "I53:")
_FRAME = re.compile(r'File "([^"]+)", line \d+, in (\S+)')
_HARNESS = ("/omni_verify/engine/", "/omni_verify/harness/", "/omni_verify/faults/", "/python3")


def operation_pair(events: Sequence[Event], key: str) -> tuple[str, ...]:
    """The struck operation and the one that met its effect last; without a strike the last two that met.

    Args:
        events: of the smallest run.
        key: what the finding concerns: a transfer key, an external id, or something that names no stream.
    """
    label = key.rsplit("_", 2)[0] if re.search(r"_\d+_\d+$", key) else key
    struck, everything = _struck_and_met(events)
    ends = ("close", "shutdown")
    ours = [m for m in everything if m[2] == label or m[2].startswith(f"{label}_") or m[1] in ends]
    met = ours or everything
    if not met:
        return (struck,) if struck else ()
    actor, last, _ = met[-1]
    if struck:
        return struck, last
    other = next((o for a, o, _ in reversed(met) if a != actor and o != last), "")
    return tuple(sorted(filter(None, (other, last))))


def _struck_and_met(events: Sequence[Event]) -> tuple[str, list[tuple[str, str, str]]]:
    """The operation in which a nemesis struck last, and (actor, operation, key) of those that can meet."""
    opened: dict[str, list[str]] = {}
    struck, met = "", list[tuple[str, str, str]]()
    for event in events:
        operation, _, side = event.point.rpartition(".")
        if event.point == "fault":
            inside = [o for o in opened.get(event.actor, ()) if o in _CALLS]
            struck = inside[-1] if inside else struck
        elif side == "enter":
            opened.setdefault(event.actor, []).append(operation)
        elif operation in opened.get(event.actor, ()):
            opened[event.actor].remove(operation)
        vain = operation == "get" and (side == "enter" or not event.detail.get("found"))
        if operation in _MEETING and not vain and event.actor != "main":
            met.append((event.actor, operation, event.key))
    return struck, met


def place(strikes: Iterable[Strike], detail: str) -> str:
    """Where in the target's code it happens: the function that raised, or that the last strike hit."""
    raised = [function for file, function in _FRAME.findall(detail) if not any(h in file for h in _HARNESS)]
    struck = [s.where for s in strikes if s.where]
    return struck[-1] if struck else raised[-1] if raised else ""


def roots(failures: Sequence[FuzzFailure]) -> tuple[tuple[str, ...], ...]:
    """Group the keys of failures by root cause, in the order in which they are given."""
    groups: list[tuple[set[tuple[object, ...]], list[str]]] = []
    for failure in failures:
        shown = (failure.identity, *failure.also)
        telling = [i for i in shown if not i.startswith(_RESIDUE)] or shown
        marks: set[tuple[object, ...]] = {(i, failure.pair, failure.where) for i in telling}
        if not failure.pair and not failure.where:
            marks = {(failure.key,)}
        same = [g for g in groups if g[0] & marks]
        into = same[0] if same else (set(), [])
        if not same:
            groups.append(into)
        into[0].update(marks)
        into[1].append(failure.key)
        for group in same[1:]:
            into[0].update(group[0])
            into[1].extend(group[1])
            groups.remove(group)
    return tuple(tuple(keys) for _, keys in groups)
