"""A stage's verbs come from one scheduler thread, also when a scenario's actors call them.

Under a scripted order the scenario says which verb comes after which. A strategy knows no such
rule: without it, it would interrupt a tick by an abort, which no engine does, and blame the target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from omni_verify.engine.control import state
from omni_verify.engine.runtime import Runtime

__all__ = ["Turn", "verb"]

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """Mutual exclusion of actors; re-entrant, and no decision while nobody waits.

    Args:
        runtime: of this run.
        name: of the stage, for the story.
        enforced: False on real threads, where the declared order decides.
    """

    def __init__(self, runtime: Runtime, name: str, *, enforced: bool) -> None:
        self._runtime, self._name, self._enforced = runtime, name, enforced
        self._owner: object = None
        self._depth = 0

    def __enter__(self) -> None:
        if not self._enforced:
            return
        me = state.current
        if self._owner is not me and self._owner is not None:
            # whoever passes this wait runs on at once: nobody else can take the turn in between
            self._runtime.until(lambda: self._owner is None, f"the turn of {self._name}'s scheduler")
        self._owner = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        if not self._enforced:
            return
        self._depth -= 1
        if not self._depth:
            self._owner = None


def verb(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Make a method of an object with a `turn` one of its scheduler's verbs."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.turn:
            return method(self, *args, **kwargs)

    functools.update_wrapper(call, method)
    return call
