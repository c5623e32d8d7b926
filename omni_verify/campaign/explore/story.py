"""The few lines of a minimised run that tell what happened."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.campaign.explore.exploration import Row
from omni_verify.engine.control import Step
from omni_verify.trace.event import Event

__all__ = ["MAX_ROWS", "rows_of_events", "rows_of_steps", "shorten"]

MAX_ROWS = 12
"""Lines of a story."""
_NOISE = ("idle.", "reap.", "poll.", "actor.", "ser.", "deser.", "load.", "close.", "shutdown.")
_FINE = ("lock.", "seg.", "fs.")
_REMOVALS = ("seg.unlink", "lock.remove")
_SYNC = frozenset({"begin", "yield", "end", "len", "is_set", "is_alive", "until"})


def rows_of_events(events: Sequence[Event], keys: set[str]) -> list[Row]:
    """Rows of a scenario's named points: no idling, no vain poll, no tear-down.

    Args:
        events: the trace.
        keys: what the failure is about; lock files and segments of other keys are left out.
    """
    kept: list[Row] = []
    vain = _vain_gets(events)
    for event in events:
        if event.point.startswith(("close.", "shutdown.")):
            break  # the harness tears down: the story is over
        if event.point.startswith(_NOISE) or event.seq in vain:
            continue
        if event.point.startswith(_FINE) and not _related(event.key, keys):
            continue
        detail = ", ".join(f"{k}={v}" for k, v in event.detail.items())
        kept.append(Row(event.seq, event.actor, event.point, event.key, detail))
    return _joined(kept)


def rows_of_steps(steps: Sequence[Step]) -> list[Row]:
    """Rows of a plain function: its operations, with their source lines."""
    return [
        Row(s.step, s.task, s.kind, s.target, " ".join(filter(None, (s.detail, s.where))))
        for s in steps
        if s.kind not in _SYNC
    ]


def shorten(rows: Sequence[Row], keys: set[str], limit: int = MAX_ROWS) -> tuple[Row, ...]:
    """Keep the rows round the switches between actors, those of the failure's keys first, at most `limit`."""
    if len(rows) <= limit:
        return tuple(rows)
    switches = [i for i in range(1, len(rows)) if rows[i].actor != rows[i - 1].actor]

    def weight(i: int) -> tuple[int, int, int]:
        near = min((min(abs(i - s), abs(i - s + 1)) for s in switches), default=len(rows))
        told = _related(rows[i].key, keys) and rows[i].actor != "main"  # main sets up, and tidies up
        return (not told, rows[i].point.startswith(_FINE) + near, -i)

    chosen = sorted(sorted(range(len(rows)), key=weight)[:limit])
    return tuple(rows[i] for i in chosen)


def _vain_gets(events: Sequence[Event]) -> set[int]:
    """Positions of the gets that found nothing and changed nothing, with everything that they did.

    A get that removed something, or into which another actor came at the same key, is part of the story.
    """
    vain: set[int] = set()
    begun: dict[str, list[Event]] = {}
    told: set[str] = set()
    for event in events:
        told |= {a for a, inside in begun.items() if a != event.actor and inside[0].key == event.key}
        if event.point == "get.enter":
            begun[event.actor] = [event]
            told.discard(event.actor)
        elif event.actor in begun:
            inside = begun[event.actor]
            inside.append(event)
            if event.point.startswith(_REMOVALS) and "raised" not in event.detail:
                told.add(event.actor)
            if event.point == "get.exit":
                del begun[event.actor]
                if not event.detail.get("found") and event.actor not in told:
                    vain.update(e.seq for e in inside)
    return vain


def _joined(rows: list[Row]) -> list[Row]:
    """Write ``X.enter`` and ``X.exit`` of one actor without anything between them as ``X``."""
    joined: list[Row] = []
    for row in rows:
        last = joined[-1] if joined else None
        name, _, side = row.point.rpartition(".")
        if (
            side == "exit"
            and last is not None
            and (last.actor, last.point, last.key) == (row.actor, f"{name}.enter", row.key)
        ):
            joined[-1] = Row(last.step, row.actor, name, row.key, row.detail)
        else:
            joined.append(row)
    return joined


def _related(key: str, keys: set[str]) -> bool:
    if not keys or not key:
        return not keys
    return any(key == k or key.startswith(f"{k}_") or k.startswith(f"{key}_") for k in keys)
