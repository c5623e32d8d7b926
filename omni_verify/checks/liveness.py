"""Verbs that return, threads that live, exceptions that stay inside."""

from __future__ import annotations

from omni_verify.checks.observation import Broken, Observation

__all__ = ["check_blocked", "check_failures", "check_threads"]


def check_blocked(seen: Observation) -> list[Broken]:
    """A verb that must not wait was found blocked when its order could not be satisfied (I29, I24)."""
    return [
        Broken(
            family=(invariant,),
            message=f"{text} is blocked where it must return",
            expected="it returns without waiting for I/O",
            found=text,
            key=text,
        )
        for invariant, text in seen.blocked
    ]


def check_threads(seen: Observation) -> list[Broken]:
    """The save and receive threads live until they are asked to end (I37b)."""
    return [
        Broken(
            family=("I37b",),
            message=f"thread {name} has died",
            expected="it contains every exception",
            found="not alive before shutdown",
            key=name,
        )
        for name in seen.dead_threads or []
    ]


def check_failures(seen: Observation) -> list[Broken]:
    """No verb of the target raises out of a legal call (I44b where a container changed under S)."""
    broken = []
    for actor, text in seen.failures.items():
        family = (
            ("I44b", "I37b")
            if "mutated during iteration" in text or "changed size" in text
            else ("*", "I37b")
        )
        broken.append(
            Broken(family=family, message=f"{actor} raised", expected="no exception", found=text, key=actor)
        )
    return broken
