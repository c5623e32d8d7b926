"""Stacks of all threads and the wait-for graph, for a wait that ran out."""

from __future__ import annotations

import sys
import threading
import traceback

import msgspec

__all__ = ["Wait", "all_stacks", "wait_for_graph"]


class Wait(msgspec.Struct, frozen=True):
    """Somebody waits.

    Attributes:
        actor: who waits.
        at: where, for example ``"gate abort.exit(R)"`` or ``"condition: R is ready"``.
        needs: what must happen first, as text.
        thread_id: the waiting thread, 0 for another process.
    """

    actor: str
    at: str
    needs: tuple[str, ...]
    thread_id: int = 0


def all_stacks() -> dict[str, list[str]]:
    """Return the stack of every thread of this process, innermost frame last, by thread name."""
    names = {t.ident: t.name for t in threading.enumerate()}
    return {
        f"{names.get(ident, '?')} ({ident})": [
            f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ")
            for frame in traceback.extract_stack(top)
        ]
        for ident, top in sys._current_frames().items()
    }


def wait_for_graph(waits: list[Wait], running: dict[str, str]) -> str:
    """Draw who waits for what, then every stack.

    Args:
        waits: the waits, the one that ran out first.
        running: actors that wait at no gate, with the innermost operation that they are inside
            (an ``enter`` without ``exit``), empty when they are inside none.
    """
    lines = ["wait-for graph:"]
    lines += [f"  {w.actor} waits at {w.at} for {', '.join(w.needs) or 'nothing known'}" for w in waits]
    lines += [
        f"  {actor} is {f'inside {op}' if op else 'running its own code'}"
        for actor, op in sorted(running.items())
    ]
    lines.append("stacks:")
    for name, frames in all_stacks().items():
        lines.append(f"  {name}")
        lines += [f"    {frame}" for frame in frames[-12:]]
    return "\n".join(lines)
